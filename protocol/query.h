#ifndef TIDEMARK_PROTOCOL_QUERY_H
#define TIDEMARK_PROTOCOL_QUERY_H

/*
 * What a server asks its client: which keys, in which order, how many at a time, and what is still
 * unanswered. A pure state machine: the decoder asks and answers, the session takes packets out and
 * sends them.
 *
 * A client dereferences every pointer it is sent, so only keys that came over this connection may
 * be asked, and never 0. Each key is asked once. Source locations are answered without their
 * key: they are matched in the order of asking, which is the order in which the official server
 * asks (so that a recording of its session decodes too).
 * Source: server/TracyWorker.cpp Worker::Exec, Query @ v0.9.1 … v0.14.0.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/snapshot.h"
#include "base/view.h"
#include "protocol/wire_version.h"

#define QUERY_PACKET_SIZE 13u
#define QUERY_SPACE_MAX 8188u /* 8192 less 4 units kept for Terminate */

/* Keys that are remembered per kind; further ones are not asked, but counted. */
#define QUERY_KEYS_MAX ((size_t)1 << 24)

struct query; /* opaque */

/* Query space for a socket whose SO_SNDBUF getsockopt gives as `sndbuf` bytes. At least 1. */
uint32_t query_space_for(size_t sndbuf);

/* What is asked in any case: every name, location, frame and symbol; no code, no source text. */
#define QUERY_ASK_DEFAULT                                                                          \
    (1u << QUERY_STRING | 1u << QUERY_THREAD | 1u << QUERY_SOURCE_LOCATION |                       \
     1u << QUERY_PLOT_NAME | 1u << QUERY_FRAME_NAME | 1u << QUERY_FIBER_NAME |                     \
     1u << QUERY_EXTERNAL_NAME | 1u << QUERY_CALLSTACK_FRAME | 1u << QUERY_SYMBOL)

struct query_config {
    const struct wire_version *version;
    uint32_t space; /* packets that may be unanswered at a time, from query_space_for */
    uint32_t ask;   /* bits 1 << enum query_kind: kinds that are asked at all */
};

/* NULL when memory is short. */
struct query *query_new(const struct query_config *config);
void query_free(struct query *q);

/* ---- the decoder's side */

/*
 * Asks `key` unless it was asked or answered before, its kind is not wanted, or it is a null
 * pointer (0 is a key for threads only). -1 only when memory is short.
 */
int query_ask(struct query *q, enum query_kind kind, uint64_t key, struct err *e);

/* The same, but sent only when nothing else waits and little is in flight. */
int query_ask_patiently(struct query *q, enum query_kind kind, uint64_t key, struct err *e);

/* Whether that kind is asked at all. */
bool query_wants(const struct query *q, enum query_kind kind);

/* Machine code of a symbol: never ask for more bytes than the client said it has. */
int query_ask_code(struct query *q, uint64_t symbol, uint32_t size, struct err *e);

/*
 * The text of a source file. Its name travels ahead, that of the image (may be empty) before it;
 * the answer has only `id`, which is not 0.
 */
int query_ask_source(struct query *q, uint32_t id, struct view image, struct view file,
                     struct err *e);

enum query_answer {
    ANSWER_EXPECTED, /* it was asked and this is its first answer */
    ANSWER_UNASKED,  /* nobody asked here: the stream answers somebody else's query */
    ANSWER_REPEATED, /* it had an answer already: keep the first */
    ANSWER_NO_MEMORY,
};

/* Takes note of an answer that carries its key. */
enum query_answer query_answered(struct query *q, enum query_kind kind, uint64_t key);

/* The first half of the answer to an ExternalName query: the thread's name. */
enum query_answer query_answered_external_thread(struct query *q, uint64_t key);

/*
 * The key that the next keyless source location answers, in *key. False when none is outstanding.
 */
bool query_take_source_location(struct query *q, uint64_t *key);

/* A reply that says only "done": true when some query in flight can be what it answers. */
bool query_answered_noop(struct query *q);

/* A symbol has no code to give; which one is not said. False when none was asked for. */
bool query_answered_no_code(struct query *q);

/* ---- the session's side */

/* Drops what was asked patiently and not sent yet: nobody will wait for it. */
void query_forget_patient(struct query *q);

/*
 * Moves queries into `out` as space allows, the priority queue first; returns the bytes written, a
 * multiple of QUERY_PACKET_SIZE. Whatever it returns counts as sent.
 */
size_t query_flush(struct query *q, uint8_t *out, size_t cap);

/* The packet that ends a session. It needs no query space. */
void query_encode_terminate(const struct wire_version *version, uint8_t out[QUERY_PACKET_SIZE]);

/* Reads a packet (the client's side). False for a code that this protocol does not have. */
bool query_packet_parse(const struct wire_version *version, const uint8_t in[QUERY_PACKET_SIZE],
                        enum query_kind *kind, uint64_t *ptr, uint32_t *extra);

/* No query waits or is unanswered. Frame names do not count, as in the official server. */
bool query_idle(const struct query *q);

struct query_stats {
    uint64_t asked[QUERY_KIND_COUNT];    /* distinct keys */
    uint64_t pending[QUERY_KIND_COUNT];  /* answers still missing; two per external name */
    uint64_t unasked[QUERY_KIND_COUNT];  /* answers to queries of somebody else */
    uint64_t repeated[QUERY_KIND_COUNT]; /* further answers to the same key */
    uint64_t over_limit;                 /* keys not asked because of QUERY_KEYS_MAX */
    uint64_t unasked_noops;
    uint64_t sent;   /* packets */
    uint32_t queued; /* packets that wait for space */
    uint32_t flight; /* packets sent and unanswered */
};

void query_stats(const struct query *q, struct query_stats *stats);

/* The state of the questions, both ways; after a failure they must only be freed. */
void query_snapshot(struct snapshot *s, struct query *q);

/* "string", "source location", … for messages. */
const char *query_kind_name(enum query_kind kind);

#endif
