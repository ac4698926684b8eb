#pragma once

/*
 * The two ends of an inner (uncompressed) byte stream, between the container and the codec. The
 * input end makes any number of bytes contiguous, so that a field may span blocks; the output end
 * passes on whole blocks of 64 KiB. Neither allocates by a size in the data: the input window grows
 * as bytes arrive.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* Uncompressed size of a container block. Source: server/TracyFileMeta.hpp @ v0.14.0. */
#define BLOCK_SIZE 65536u

/* The most room that one call of a source needs: a block, and a byte to detect a longer one. */
#define SOURCE_ROOM (BLOCK_SIZE + 1)

/*
 * Reads the next bytes: at least one, at most `room` (≥ SOURCE_ROOM). Returns 0 at the end of the
 * stream, or -1 with `e` on an error.
 */
struct byte_source {
    void *ctx;
    ssize_t (*read)(void *ctx, uint8_t *out, size_t room, struct err *e);
};

struct in_stream {
    struct byte_source source;
    uint8_t *buf;
    size_t cap;
    const uint8_t *pos; /* next unread byte */
    const uint8_t *end; /* end of the available bytes */
    uint64_t base;      /* offset of buf[0] in the stream */
};

int in_stream_init(struct in_stream *s, struct byte_source source, struct err *e);
void in_stream_release(struct in_stream *s);

static inline size_t in_stream_left(const struct in_stream *s)
{
    return (size_t)(s->end - s->pos);
}

/* Offset of the next unread byte in the stream. */
static inline uint64_t in_stream_offset(const struct in_stream *s)
{
    return s->base + (uint64_t)(s->pos - s->buf);
}

int in_stream_fill(struct in_stream *s, size_t n, struct err *e);

/*
 * Makes at least `n` bytes contiguous at s->pos. Returns 1 when they are available, 0 when the
 * stream ends before (see in_stream_left), or -1 on an error. Moves the window: earlier pointers
 * into it become invalid.
 */
static inline int in_stream_need(struct in_stream *s, size_t n, struct err *e)
{
    return in_stream_left(s) >= n ? 1 : in_stream_fill(s, n, e);
}

/*
 * Takes blocks: each has BLOCK_SIZE bytes except the last, which may be shorter but not empty.
 * `events` may be NULL. It is called before a block whose bytes [first, end) are whole memory
 * events, which compress better with that knowledge.
 */
struct block_sink {
    void *ctx;
    int (*put)(void *ctx, const uint8_t *block, size_t len, struct err *e);
    void (*events)(void *ctx, size_t first, size_t end);
};

/* A block and its range of memory events: bytes [first, end) are whole events. */
struct stream_block {
    const uint8_t *bytes;
    size_t len;
    size_t first, end; /* both 0: none */
};

/*
 * A sink's work on a block in two steps, so that the first step can run for several blocks in
 * parallel. Block i belongs to lane i mod `lanes`.
 */
struct block_work {
    void *ctx;
    unsigned lanes;
    size_t room; /* most bytes of an encoded block */
    /* Encodes a block. Calls for one lane come one at a time, in order. */
    int (*encode)(void *ctx, unsigned lane, const struct stream_block *block, uint8_t *out,
                  size_t *size, struct err *e);
    /* Writes an encoded block. Calls come one at a time, in order of the blocks. */
    int (*append)(void *ctx, const uint8_t *out, size_t size, struct err *e);
};

/* The first error stays in `err`; later writes are dropped. */
struct out_stream {
    struct block_sink sink;
    uint8_t *buf;
    size_t len;
    uint64_t total;        /* bytes passed on */
    uint64_t events_begin; /* the newest run of memory events, as offsets in the stream */
    uint64_t events_end;
    bool failed;
    struct err err;
};

/* Most bytes of one reservation. */
#define OUT_STREAM_ROOM ((size_t)2 * BLOCK_SIZE)

int out_stream_init(struct out_stream *s, struct block_sink sink, struct err *e);
void out_stream_release(struct out_stream *s);

void out_stream_flush_blocks(struct out_stream *s);

/* OUT_STREAM_CAP = an incomplete block plus the largest reservation. */
#define OUT_STREAM_CAP ((size_t)4 * BLOCK_SIZE)

/* Reserves `n` ≤ OUT_STREAM_ROOM bytes; out_stream_commit takes the end of the written ones. */
static inline uint8_t *out_stream_reserve(struct out_stream *s, size_t n)
{
    if (OUT_STREAM_CAP - s->len < n)
        out_stream_flush_blocks(s);
    return s->buf + s->len;
}

static inline void out_stream_commit(struct out_stream *s, const uint8_t *end)
{
    s->len = (size_t)(end - s->buf);
}

/* Appends any number of bytes. */
void out_stream_put(struct out_stream *s, const void *bytes, size_t n);

static inline uint64_t out_stream_offset(const struct out_stream *s)
{
    return s->total + s->len;
}

/* Call these right before and after writing memory events. Adjacent runs are merged. */
static inline void out_stream_begin_events(struct out_stream *s)
{
    if (s->events_end == out_stream_offset(s))
        return;
    out_stream_flush_blocks(s); /* complete blocks belong to the previous run */
    s->events_begin = s->events_end = out_stream_offset(s);
}

static inline void out_stream_end_events(struct out_stream *s)
{
    s->events_end = out_stream_offset(s);
}

/* Passes on the remaining bytes. Returns 0, or -1 with the first error. */
int out_stream_finish(struct out_stream *s, struct err *e);
