#include "trace/file/stream.h"

#include <stdlib.h>
#include <string.h>

#include "trace/file/record.h"

#define IN_STREAM_CAP (4 * (size_t)SOURCE_ROOM)

int in_stream_init(struct in_stream *s, struct byte_source source, struct err *e)
{
    *s = (struct in_stream){.source = source, .cap = IN_STREAM_CAP};
    s->buf = malloc(s->cap);
    if (!s->buf)
        return err_no_memory(e, "the window of a trace file");
    s->pos = s->end = s->buf;
    return 0;
}

void in_stream_release(struct in_stream *s)
{
    free(s->buf);
    *s = (struct in_stream){0};
}

/* Makes room for another read after the available bytes, which start at buf[0]. */
static int in_stream_grow(struct in_stream *s, size_t have, struct err *e)
{
    if (s->cap - have >= SOURCE_ROOM)
        return 0;
    size_t cap = s->cap * 2;
    uint8_t *buf = cap > s->cap ? realloc(s->buf, cap) : NULL;
    if (!buf)
        return err_no_memory(e, "a long record of a trace file");
    s->buf = buf;
    s->cap = cap;
    return 0;
}

int in_stream_fill(struct in_stream *s, size_t n, struct err *e)
{
    size_t have = in_stream_left(s);
    s->base = in_stream_offset(s);
    if (have > 0)
        memmove(s->buf, s->pos, have);
    int status = 1;
    while (have < n) {
        status = in_stream_grow(s, have, e) != 0 ? -1 : 1;
        if (status < 0)
            break;
        ssize_t got = s->source.read(s->source.ctx, s->buf + have, s->cap - have, e);
        status = got < 0 ? -1 : got > 0;
        if (got <= 0)
            break;
        have += (size_t)got;
    }
    s->pos = s->buf;
    s->end = s->buf + have;
    return status;
}

int out_stream_init(struct out_stream *s, struct block_sink sink, struct err *e)
{
    *s = (struct out_stream){.sink = sink};
    s->buf = malloc(OUT_STREAM_CAP);
    return s->buf ? 0 : err_no_memory(e, "the output buffer of a trace file");
}

void out_stream_release(struct out_stream *s)
{
    free(s->buf);
    s->buf = NULL;
}

/* Reports to the sink which part of the current block is memory events. */
static void out_stream_tell_events(struct out_stream *s, size_t len)
{
    uint64_t end = s->events_end < s->total + len ? s->events_end : s->total + len;
    uint64_t first = s->events_begin;
    if (first < s->total) /* the first event that begins in this block */
        first = s->total + MEMORY_EVENT_SIZE - 1 - (s->total - first - 1) % MEMORY_EVENT_SIZE;
    if (first < end)
        s->sink.events(s->sink.ctx, (size_t)(first - s->total), (size_t)(end - s->total));
}

static void out_stream_hand_over(struct out_stream *s, const uint8_t *block, size_t len)
{
    if (!s->failed && s->sink.events)
        out_stream_tell_events(s, len);
    if (!s->failed && s->sink.put(s->sink.ctx, block, len, &s->err) != 0)
        s->failed = true;
    s->total += len;
}

void out_stream_flush_blocks(struct out_stream *s)
{
    size_t done = 0;
    for (; s->len - done >= BLOCK_SIZE; done += BLOCK_SIZE)
        out_stream_hand_over(s, s->buf + done, BLOCK_SIZE);
    s->len -= done;
    if (done > 0 && s->len > 0)
        memmove(s->buf, s->buf + done, s->len);
}

void out_stream_put(struct out_stream *s, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;
    while (n > 0) {
        size_t part = n < BLOCK_SIZE ? n : BLOCK_SIZE;
        uint8_t *to = out_stream_reserve(s, part);
        memcpy(to, p, part);
        out_stream_commit(s, to + part);
        p += part;
        n -= part;
    }
}

int out_stream_finish(struct out_stream *s, struct err *e)
{
    out_stream_flush_blocks(s);
    if (s->len > 0)
        out_stream_hand_over(s, s->buf, s->len);
    s->len = 0;
    if (s->failed && e)
        *e = s->err;
    return s->failed ? -1 : 0;
}
