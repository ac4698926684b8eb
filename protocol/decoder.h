#ifndef TIDEMARK_PROTOCOL_DECODER_H
#define TIDEMARK_PROTOCOL_DECODER_H

/*
 * Decompressed frames → canonical events. Holds everything that the wire leaves to context: the
 * four time references, waiting strings and payloads, each thread's call stack and zone depth,
 * fibers, half-delivered replies. Asks (through struct query) for every name it meets. Knows no
 * sockets and no files.
 * Source: server/TracyWorker.cpp Worker::DispatchProcess and Worker::Process* @ v0.9.1 … v0.14.0.
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

/* Threads and fibers that one stream may name. */
#define DECODER_THREADS_MAX ((size_t)1 << 20)

struct decoder; /* opaque */

/*
 * Who finds instructions in machine code, so that the client is asked which lines they come from:
 * calls `found` with the address of each instruction and of each target of a jump or call. -1 only
 * when memory is short or `found` says so; bytes that are no instructions end it.
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
    struct query *query;           /* outlives the decoder; its owner sends what it queues */
    struct event_sink sink;
    bool as_released;             /* as the server of the client's release does, not a later one */
    struct code_reader read_code; /* read may be NULL: lines of instructions are not asked for */
};

/* NULL when memory is short. */
struct decoder *decoder_new(const struct decoder_config *config);
void decoder_free(struct decoder *d);

/*
 * Decodes one whole frame and delivers its events before it returns. -1 with ERR_INPUT naming
 * protocol, frame, byte offset in the decompressed stream, item and cause when the bytes cannot be
 * decoded; every event before that item has been delivered then, and the decoder takes no further
 * frames. -1 with the sink's own error when the sink refuses.
 */
int decoder_frame(struct decoder *d, const uint8_t *bytes, size_t len, struct err *e);

struct decoder_stats {
    uint64_t frames;
    uint64_t items;
    uint64_t bytes;                  /* decompressed */
    uint64_t kinds[WIRE_KIND_COUNT]; /* items by canonical kind */
    uint64_t unasked;                /* replies to queries of somebody else, noops included */
    uint64_t repeated;               /* replies to a key that had its answer; not delivered */
    uint64_t stale_callstacks;       /* call stacks that no item took */
    uint64_t odd_metadata;           /* message severities or sources outside the known range */
};

const struct decoder_stats *decoder_stats(struct decoder *d);

/* The client has sent item Terminate: it waits for query Terminate. */
bool decoder_terminated(const struct decoder *d);

/* The client has crashed: its zones never end. */
bool decoder_crashed(const struct decoder *d);

/*
 * The official server's condition for ending after item Terminate: all queries answered, no string
 * or payload waiting for its item, no zone open (unless crashed). A client can break it for ever,
 * so a session waits for it with a time limit.
 */
bool decoder_settled(const struct decoder *d);

/*
 * The state between two frames, both ways: into a decoder that was just made. `callstacks`: how
 * many the sink has. After a failure it must only be freed.
 */
void decoder_snapshot(struct snapshot *s, struct decoder *d, uint64_t callstacks);

/* Between two frames: calls `visit` for each id of a call stack that waits; it may change it. */
void decoder_each_callstack(struct decoder *d, void (*visit)(void *ctx, uint32_t *id), void *ctx);

/*
 * True when the bytes so far end between items that belong together: a string or payload still
 * waits for its item, or a reply's frames are not complete.
 */
bool decoder_in_group(const struct decoder *d);

#endif
