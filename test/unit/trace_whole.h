#ifndef TIDEMARK_TEST_TRACE_WHOLE_H
#define TIDEMARK_TEST_TRACE_WHOLE_H

/*
 * A whole trace as an array of records, for tests that want to look at it in any order. What
 * records point to is kept as a copy of its bytes. Include after trace_test.h.
 */

#include "base/vec.h"
#include "trace/filter/rewrite.h"

struct whole_record {
    enum record_type type;
    _Alignas(8) uint8_t bytes[184]; /* the struct of its type */
    char *text;                     /* of the blob or string that it views, NULL for others */
    size_t text_len;
};

struct whole {
    VEC(struct whole_record) list;
};

#define WHOLE(STRUCT, W, I) ((const struct rec_##STRUCT *)(const void *)(W)->list.at[I].bytes)

static inline struct view whole_view(enum record_type type, const void *rec)
{
    switch (type) {
    case REC_STRING:
        return ((const struct rec_string *)rec)->text;
    case REC_FRAME_IMAGE_DICT:
        return ((const struct rec_blob *)rec)->bytes;
    case REC_FRAME_IMAGE:
        return ((const struct rec_frame_image *)rec)->bytes;
    case REC_SOURCE_FILE:
        return ((const struct rec_source_file *)rec)->bytes;
    case REC_CALLSTACK_FRAME: {
        const struct rec_callstack_frame *f = rec;
        return (struct view){(const char *)f->inlines, f->n * sizeof *f->inlines};
    }
    default:
        return (struct view){NULL, 0};
    }
}

static inline int whole_put(void *ctx, enum record_type type, const void *recs, size_t n,
                            struct err *e)
{
    struct whole *w = ctx;
    (void)e;
    for (size_t i = 0; i < n; i++) {
        const uint8_t *rec = (const uint8_t *)recs + i * record_size(type);
        struct whole_record r = {.type = type};
        struct view v = whole_view(type, rec);
        assert_true(record_size(type) <= sizeof r.bytes);
        memcpy(r.bytes, rec, record_size(type));
        if (v.p) {
            r.text = malloc(v.len + 1);
            assert_non_null(r.text);
            memcpy(r.text, v.p, v.len);
            r.text[v.len] = 0;
            r.text_len = v.len;
        }
        assert_true(vec_push(&w->list, r));
    }
    return 0;
}

static inline void whole_read(const struct buf *inner, struct whole *w)
{
    struct trace_info info;
    struct err e = {0};
    const struct record_sink sink = {w, whole_put};
    if (read_inner_into(inner->data, inner->len, SIZE_MAX, &sink, &info, &e) != 0)
        fail_msg("%s", e.text);
}

static inline void whole_release(struct whole *w)
{
    for (size_t i = 0; i < w->list.len; i++)
        free(w->list.at[i].text);
    vec_release(&w->list);
}

/* The position of the n-th record of a type, from 0; SIZE_MAX when there are fewer. */
static inline size_t whole_find(const struct whole *w, enum record_type type, size_t n)
{
    for (size_t i = 0; i < w->list.len; i++) {
        if (w->list.at[i].type == type && n-- == 0)
            return i;
    }
    return SIZE_MAX;
}

static inline size_t whole_count(const struct whole *w, enum record_type type)
{
    size_t n = 0;
    for (size_t i = 0; i < w->list.len; i++)
        n += w->list.at[i].type == type;
    return n;
}

/* ---- rewriting in memory */

static inline int whole_read_pass(void *ctx, unsigned pass, const struct record_sink *sink,
                                  const bool *wanted, struct trace_info *info, struct err *e)
{
    const struct buf *in = ctx;
    struct memory_source m = {in->data, in->len, 0, 4001};
    const struct trace_read_options options = {.wanted = wanted};
    (void)pass;
    return trace_read_inner((struct byte_source){&m, read_memory_source}, sink, &options, info, e);
}

/* An inner stream through rewrite_trace. */
static inline int whole_rewrite(const struct buf *in, const struct rewrite_options *options,
                                struct buf *out, struct rewrite_outcome *outcome, struct err *e)
{
    struct trace_writer *w;
    struct rewrite_outcome ignored = {0};
    const struct rewrite_source source = {(void *)in, whole_read_pass};
    const struct block_sink blocks = {.ctx = out, .put = put_block_to_buf};
    outcome = outcome ? outcome : &ignored;
    assert_int_equal(trace_writer_open_inner(&w, NULL, blocks, e), 0);
    int status = rewrite_trace(&source, options, w, outcome, e);
    if (status == 0)
        status = trace_writer_finish(w, NULL, e);
    trace_writer_free(w);
    buf_release(&outcome->losses);
    return status;
}

static inline void whole_fixture(const char *path, struct buf *inner)
{
    struct err e = {0};
    int fd = open_fixture(path);
    if (unpack(fd, inner, &e) != 0)
        fail_msg("%s: %s", path, e.text);
    close(fd);
}

#endif
