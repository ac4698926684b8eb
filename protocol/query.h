#pragma once

/*
 * The queries to a client: which keys, in which order, how many at a time, and which are still
 * unanswered. A pure state machine: the decoder adds queries and reports answers, the session takes
 * packets out and sends them.
 *
 * A client dereferences every pointer that it receives, so only keys that arrived over this
 * connection may be queried, and never 0. Each key is queried once. Answers with source locations
 * carry no key. They are matched in the order of the queries, which is the official server's order,
 * so that a recording of its session decodes too. Source: server/TracyWorker.cpp Worker::Exec,
 * Query @ v0.9.1 … v0.14.0.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/pageable.h"
#include "base/snapshot.h"
#include "base/view.h"
#include "protocol/wire_version.h"

#define QUERY_PACKET_SIZE 13u
#define QUERY_SPACE_MAX 8188u /* 8192 less 4 units kept for Terminate */

/* The most keys remembered per kind; further ones are counted but not queried. */
#define QUERY_KEYS_MAX ((size_t)1 << 24)

struct query; /* opaque */

/* The query space for a socket whose SO_SNDBUF is `sndbuf` bytes. At least 1. */
uint32_t query_space_for(size_t sndbuf);

/* Kinds queried by default: every name, location, frame and symbol; no code, no source text. */
#define QUERY_ASK_DEFAULT                                                                          \
    (1u << QUERY_STRING | 1u << QUERY_THREAD | 1u << QUERY_SOURCE_LOCATION |                       \
     1u << QUERY_PLOT_NAME | 1u << QUERY_FRAME_NAME | 1u << QUERY_FIBER_NAME |                     \
     1u << QUERY_EXTERNAL_NAME | 1u << QUERY_CALLSTACK_FRAME | 1u << QUERY_SYMBOL)

struct query_config {
    const struct wire_version *version;
    uint32_t space;            /* most unanswered packets, from query_space_for */
    uint32_t ask;              /* bits 1 << enum query_kind: enabled kinds */
    struct pageable *pageable; /* allocator of the keys and queues; NULL: the heap */
};

/* NULL when memory is short. */
struct query *query_new(const struct query_config *config);
void query_free(struct query *q);

/* ---- the decoder's side */

/*
 * Queries `key` unless it was queried or answered before, its kind is disabled, or it is a null
 * pointer (0 is a valid key for threads only). -1 only when memory is short.
 */
int query_ask(struct query *q, enum query_kind kind, uint64_t key, struct err *e);

/* The same with low priority: sent only when no other queries wait and few are in flight. */
int query_ask_patiently(struct query *q, enum query_kind kind, uint64_t key, struct err *e);

/* Whether a kind of query is enabled. */
bool query_wants(const struct query *q, enum query_kind kind);

/* Queries a symbol's machine code. `size` must not exceed the size that the client announced. */
int query_ask_code(struct query *q, uint64_t symbol, uint32_t size, struct err *e);

/*
 * Queries the text of a source file. Before the query, the image's name (may be empty) and the
 * file's name are transferred. The answer carries only `id`, which is not 0.
 */
int query_ask_source(struct query *q, uint32_t id, struct view image, struct view file,
                     struct err *e);

enum query_answer {
    ANSWER_EXPECTED, /* it was queried, and this is the first answer */
    ANSWER_UNASKED,  /* it was not queried here: the answer to another server's query */
    ANSWER_REPEATED, /* it was already answered: keep the first */
    ANSWER_NO_MEMORY,
};

/* Records an answer that carries its key. */
enum query_answer query_answered(struct query *q, enum query_kind kind, uint64_t key);

/* Records the first half of the answer to an ExternalName query: the thread's name. */
enum query_answer query_answered_external_thread(struct query *q, uint64_t key);

/* Sets *key to the key of the next keyless source location. False when none is outstanding. */
bool query_take_source_location(struct query *q, uint64_t *key);

/* Records a keyless "done". True when it can answer a query in flight. */
bool query_answered_noop(struct query *q);

/*
 * Records that a symbol, which the answer does not name, has no code. False when no code was
 * queried.
 */
bool query_answered_no_code(struct query *q);

/* ---- the session's side */

/* Drops unsent patient queries: the session will not wait for them. */
void query_forget_patient(struct query *q);

/*
 * Moves queries into `out` as space allows, the priority queue first. Returns the bytes written, a
 * multiple of QUERY_PACKET_SIZE, and counts them as sent.
 */
size_t query_flush(struct query *q, uint8_t *out, size_t cap);

/* Encodes the packet that ends a session. It needs no query space. */
void query_encode_terminate(const struct wire_version *version, uint8_t out[QUERY_PACKET_SIZE]);

/* The client's side: reads a packet. False for a code that this protocol does not have. */
bool query_packet_parse(const struct wire_version *version, const uint8_t in[QUERY_PACKET_SIZE],
                        enum query_kind *kind, uint64_t *ptr, uint32_t *extra);

/* No query waits or is unanswered. Frame names do not count, as in the official server. */
bool query_idle(const struct query *q);

struct query_stats {
    uint64_t asked[QUERY_KIND_COUNT];    /* distinct keys */
    uint64_t pending[QUERY_KIND_COUNT];  /* missing answers; two per external name */
    uint64_t unasked[QUERY_KIND_COUNT];  /* answers to another server's queries */
    uint64_t repeated[QUERY_KIND_COUNT]; /* repeated answers to a key */
    uint64_t over_limit;                 /* keys not queried because of QUERY_KEYS_MAX */
    uint64_t unasked_noops;
    uint64_t sent;   /* packets */
    uint32_t queued; /* packets waiting for space */
    uint32_t flight; /* packets sent and unanswered */
};

void query_stats(const struct query *q, struct query_stats *stats);

/* Saves or restores the state of the queries; after a failure they may only be freed. */
void query_snapshot(struct snapshot *s, struct query *q);
