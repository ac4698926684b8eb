#pragma once

/*
 * The properties of a protocol number. The handshake chooses them once; no later code checks the
 * number. Source: TracyProtocol.hpp and TracyQueue.hpp of the trees that carried each number.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "protocol/wire.h"

#define PROTOCOL_MIN 63u
#define PROTOCOL_MAX 82u

/* Kinds of queries. Tidemark chose the numbers; the code on the wire is wire_version.query_code. */
enum query_kind {
    QUERY_TERMINATE,
    QUERY_STRING,
    QUERY_THREAD,
    QUERY_SOURCE_LOCATION,
    QUERY_PLOT_NAME,
    QUERY_FRAME_NAME,
    QUERY_PARAMETER,
    QUERY_FIBER_NAME,
    QUERY_EXTERNAL_NAME,
    QUERY_DISCONNECT,
    QUERY_CALLSTACK_FRAME,
    QUERY_SYMBOL,
    QUERY_SYMBOL_CODE,
    QUERY_SOURCE_CODE,
    QUERY_DATA_TRANSFER,
    QUERY_DATA_TRANSFER_PART,
    QUERY_KIND_COUNT
};

/* Location of a message literal's severity and source. */
enum literal_tag {
    LITERAL_PLAIN,    /* the field is the pointer alone: no severity */
    LITERAL_TAG_HIGH, /* top 8 bits */
    LITERAL_TAG_LOW,  /* low 8 bits; the address is shifted left by 8 */
};

struct wire_facts {
    const char *releases; /* "v0.12.0 to v0.12.2", "development, May 2025" */
    bool development;     /* never released: several layouts may have used the number */

    bool welcome_delay;      /* the welcome message contains the queue delay */
    bool external_name_prio; /* ExternalName goes through the priority queue */
    bool zone_value_hex;     /* a zone's value prints as "255 [0xff]", not "255" */
    enum literal_tag literal_tag;
    uint8_t query_code[QUERY_KIND_COUNT];

    uint8_t file_version[3]; /* default file version of this client's traces: major, minor, patch */

    /* Call stack and hardware samples do not extend the trace. */
    bool samples_end_nothing;
    /* The client checks that queried code is readable before it reads it. */
    bool code_checked;
    /*
     * A client without code transfer has no source texts either; older clients send them all the
     * same.
     */
    bool sources_with_code;
    /*
     * How servers after v0.14.0 interpret the same bytes: memory events belong to the running
     * fiber, and red and blue of plot colours are swapped, so that profilers show the intended
     * colour.
     */
    bool fiber_memory, plot_color_rgb;
};

struct wire_version {
    uint32_t protocol;
    struct wire_facts facts;
    uint16_t item_count; /* ids 0 … item_count - 1 */
    const struct wire_item *items;
    const struct wire_item_info *info;
};

/* All protocol numbers in ascending order (generated). */
extern const struct wire_version wire_versions[];
extern const unsigned wire_version_count;

/* The facts of a protocol number, or NULL when Tidemark does not support it. */
const struct wire_version *wire_version_find(uint32_t protocol);

/*
 * The order in which a probe tries the numbers: released ones from new to old, IREE's 72 after the
 * newest three, then the other development numbers. *n is set to their count.
 */
const uint32_t *wire_version_probe_order(unsigned *n);

/* The id of Tracy's item `name` ("MemAlloc") in this protocol, or -1. */
int wire_version_item(const struct wire_version *v, const char *name);

/* Bytes of the welcome message: 1178, or 1170 without the delay. */
size_t wire_version_welcome_size(const struct wire_version *v);
