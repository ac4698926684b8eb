#ifndef TIDEMARK_TEST_INTAKE_SIDE_H
#define TIDEMARK_TEST_INTAKE_SIDE_H

/* Recordings on their way through an intake: for tests of what happens between two frames. */

#include "protocol_support.h"

#include <lz4.h>

#include "server/capture/intake.h"

static const char *const side_tags[] = {"v0.9.1",  "v0.10",   "v0.11.1",
                                        "v0.12.2", "v0.13.1", "v0.14.0"};

#define SIDE_ASKS                                                                                  \
    (QUERY_ASK_DEFAULT | 1u << QUERY_SYMBOL_CODE | 1u << QUERY_SOURCE_CODE |                       \
     1u << QUERY_DATA_TRANSFER | 1u << QUERY_DATA_TRANSFER_PART)

/* ---- streams of short frames */

/* Bytes of the item at `p`, of which `left` are there. */
static inline size_t item_size(const struct wire_version *v, const uint8_t *p, size_t left)
{
    assert_true(*p < v->item_count);
    const struct wire_item *it = &v->items[*p];
    size_t start = it->size + wire_tail_size((enum wire_tail)it->tail);
    assert_true(start <= left);
    const uint8_t *len = p + it->size;
    switch (it->tail) {
    case WIRE_TAIL_NONE:
        return start;
    case WIRE_TAIL_8:
        return start + *len;
    case WIRE_TAIL_16:
        return start + load_u16(len);
    case WIRE_TAIL_16_PLUS_256:
        return start + load_u16(len) + 256;
    default:
        return start + load_u32(len);
    }
}

static inline void put_frame(struct buf *out, const uint8_t *bytes, size_t n)
{
    int most = LZ4_compressBound((int)n);
    struct buf packed = {0};
    char *to = (char *)buf_reserve(&packed, (size_t)most);
    int len = LZ4_compress_default((const char *)bytes, to, (int)n, most);
    assert_true(len > 0);
    buf_u32(out, (uint32_t)len);
    buf_put(out, to, (size_t)len);
    buf_release(&packed);
}

/*
 * The recording's stream, cut into frames of a few items each: between any two of them a part may
 * end, so what is open, waits or is half told then must be in the checkpoint.
 */
static inline struct buf short_frames(const struct recording *rec)
{
    const struct wire_version *v = wire_version_find(rec->protocol);
    struct frame_reader *frames = frame_reader_new();
    const uint8_t *in = rec->bytes + rec->stream;
    size_t len = rec->len - rec->stream, items = 0;
    struct wire_frame frame;
    struct buf out = {0};
    struct err e = {0};
    while (frame_reader_feed(frames, &in, &len, &frame, &e) == 1) {
        size_t from = 0;
        for (size_t at = 0; at < frame.len;) {
            at += item_size(v, frame.bytes + at, frame.len - at);
            if (++items % 7 == 0 || at == frame.len) {
                put_frame(&out, frame.bytes + from, at - from);
                from = at;
            }
        }
    }
    assert_false(out.failed);
    frame_reader_free(frames);
    return out;
}

/* ---- both sides */

/* An intake with its store, and what it has asked. */
struct side {
    struct trace trace;
    struct intake r;
    struct buf asked;
};

static inline void must(int status, const struct err *e)
{
    if (status != 0)
        fail_msg("%s", e->text);
}

static inline int drop_part(void *ctx, struct err *e)
{
    (void)ctx;
    (void)e;
    return 0;
}

static inline void side_open(struct side *s, const struct recording *rec)
{
    struct err e = {0};
    struct intake_start start = {.version = wire_version_find(rec->protocol),
                                 .welcome = rec->welcome,
                                 .ask = SIDE_ASKS,
                                 .space = 50};
    if (rec->welcome.flags & WELCOME_ON_DEMAND)
        on_demand_parse(rec->bytes + rec->stream - ON_DEMAND_SIZE, &start.on_demand);
    *s = (struct side){0};
    must(trace_init(&s->trace, NULL, &e), &e);
    must(intake_open(&s->r, &s->trace, &start, &e), &e);
    s->r.ingest.part_full = drop_part;
    s->r.ingest.compact_least = 1;
}

static inline void side_release(struct side *s)
{
    intake_release(&s->r);
    trace_release(&s->trace);
    buf_release(&s->asked);
}

/* Feeds bytes in pieces that no frame begins with, asking after each. */
static inline void feed(struct side *s, const uint8_t *bytes, size_t len)
{
    uint8_t packets[64 * QUERY_PACKET_SIZE];
    struct err e = {0};
    while (len > 0) {
        size_t n = len < 1013 ? len : 1013, left = n;
        const uint8_t *p = bytes;
        int status;
        while ((status = intake_take(&s->r, &p, &left, &e)) == 1)
            ;
        must(status, &e);
        n -= left;
        buf_put(&s->asked, packets, query_flush(s->r.query, packets, sizeof packets));
        bytes += n;
        len -= n;
    }
}

#endif
