#pragma once

/*
 * Decompressed frames → canonical events. Holds all context that the wire leaves out: the four time
 * references, buffered strings and payloads, each thread's call stack and zone depth, fibers,
 * partial replies. Queries (through struct query) every name it meets. Knows no sockets and no
 * files. Source: server/TracyWorker.cpp Worker::DispatchProcess and Worker::Process* @ v0.9.1 …
 * v0.14.0.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/snapshot.h"
#include "protocol/event.h"
#include "protocol/handshake.h"
#include "protocol/query.h"
#include "protocol/wire_version.h"

/* The most threads and fibers of one stream. */
#define DECODER_THREADS_MAX ((size_t)1 << 20)

struct decoder; /* opaque */

/*
 * Finds instructions in machine code, whose source lines are then queried. Calls `found` with the
 * address of each instruction and of each target of a jump or call. Returns -1 only when memory is
 * short or `found` fails; bytes that are no instructions end the search.
 */
typedef int code_found_fn(void *ctx, uint64_t address, struct err *e);

struct code_reader {
    void *ctx;
    int (*read)(void *ctx, uint64_t address, struct view code, code_found_fn *found,
                void *found_ctx, struct err *e);
};

struct decoder_config {
    const struct wire_version *version;
    const struct welcome *welcome; /* read during decoder_new only */
    struct query *query;           /* outlives the decoder; its owner sends the queries in it */
    struct event_sink sink;
    struct pageable *pageable; /* allocator of the tables of threads; NULL: the heap */
    bool as_released; /* behave as the server of the client's release, not as a later one */
    struct code_reader read_code; /* read may be NULL: no lines of instructions are queried */
};

/* NULL when memory is short. */
struct decoder *decoder_new(const struct decoder_config *config);
void decoder_free(struct decoder *d);

/*
 * Decodes one whole frame and delivers its events before it returns. Undecodable bytes are
 * ERR_INPUT, with protocol, frame, byte offset in the decompressed stream, item and cause. The
 * events before the bad item have been delivered then, and the decoder accepts no further frames.
 * If the sink fails, returns -1 with the sink's error.
 */
int decoder_frame(struct decoder *d, const uint8_t *bytes, size_t len, struct err *e);

struct decoder_stats {
    uint64_t frames;
    uint64_t items;
    uint64_t bytes;                  /* decompressed */
    uint64_t kinds[WIRE_KIND_COUNT]; /* items by canonical kind */
    uint64_t unasked;                /* replies to another server's queries, noops included */
    uint64_t repeated;               /* replies to an already answered key; not delivered */
    uint64_t stale_callstacks;       /* call stacks that no item used */
    uint64_t odd_metadata;           /* message severities or sources outside the known range */
};

const struct decoder_stats *decoder_stats(struct decoder *d);

/* The client has sent item Terminate and waits for query Terminate. */
bool decoder_terminated(const struct decoder *d);

/* The client has crashed: its open zones never end. */
bool decoder_crashed(const struct decoder *d);

/*
 * The official server's condition for ending after item Terminate: all queries answered, no string
 * or payload without its item, no open zone (unless crashed). A client may never meet it, so a
 * session waits with a time limit.
 */
bool decoder_settled(const struct decoder *d);

/*
 * Saves or restores the state between two frames; restoring needs a new decoder. `callstacks`: the
 * number of the sink's call stacks. After a failure the decoder may only be freed.
 */
void decoder_snapshot(struct snapshot *s, struct decoder *d, uint64_t callstacks);

/* Between two frames: calls `visit` with the id of each pending call stack, which it may change. */
void decoder_each_callstack(struct decoder *d, void (*visit)(void *ctx, uint32_t *id), void *ctx);

/*
 * True when the bytes so far end within a group of items: a string or payload without its item, or
 * an incomplete reply.
 */
bool decoder_in_group(const struct decoder *d);
