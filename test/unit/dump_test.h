#ifndef TIDEMARK_TEST_DUMP_TEST_H
#define TIDEMARK_TEST_DUMP_TEST_H

/* Shared by the tests of dumps. Include after cmocka.h. */

#include "analysis/dump/dump.h"
#include "report/dump_format.h"
#include "trace_sample.h"
#include "trace_test.h"
#include "trace_tree.h"

/* ---- dumping a tree */

static inline int read_tree(void *ctx, const struct record_sink *sink, const bool *wanted,
                            struct err *e)
{
    (void)wanted;
    return tree_emit(ctx, 0, sink, e);
}

static inline int write_to_buf(void *ctx, const void *bytes, size_t n, struct err *e)
{
    (void)e;
    buf_put(ctx, bytes, n);
    return 0;
}

static inline struct dump_options every_section(void)
{
    struct dump_options o = {
        .limit = UINT64_MAX, .own = true, .format = &dump_format_text, .write = write_to_buf};
    memset(o.sections, true, sizeof o.sections);
    return o;
}

static inline void dump_with(struct tree *t, struct dump_options options, struct buf *out)
{
    struct dump_source source = {t, read_tree};
    struct err e = {0};
    buf_clear(out);
    options.write_ctx = out;
    if (dump_run(&source, &options, &e) != 0)
        fail_msg("dump: %s", e.text);
    assert_false(out->failed);
}

static inline void dump_tree(struct tree *t, struct buf *out)
{
    dump_with(t, every_section(), out);
}

static inline bool same(const struct buf *a, const struct buf *b)
{
    return a->len == b->len && memcmp(a->data, b->data, a->len) == 0;
}

/* Says where two dumps part. */
static inline void assert_same(const struct buf *a, const struct buf *b, const char *what)
{
    size_t i = 0, line = 0;
    while (i < a->len && i < b->len && a->data[i] == b->data[i]) {
        if (a->data[i++] == '\n')
            line = i;
    }
    if (i == a->len && i == b->len)
        return;
    fail_msg("%s: '%.200s' against '%.200s'", what, (const char *)a->data + line,
             (const char *)b->data + line);
}

/* ---- traces to dump */

static inline uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

#define NODE_REC(T, STRUCT, NUMBER) ((struct rec_##STRUCT *)(T)->nodes.at[NUMBER].rec)

/* Runs the last argument for each node `at` of a type, as `r`. */
#define EACH_NODE(T, TYPE, STRUCT, ...)                                                            \
    do {                                                                                           \
        size_t count_;                                                                             \
        uint32_t *nodes_ = tree_nodes((T), REC_##TYPE, &count_);                                   \
        for (size_t at = 0; at < count_; at++) {                                                   \
            struct rec_##STRUCT *r = NODE_REC(T, STRUCT, nodes_[at]);                              \
            __VA_ARGS__;                                                                           \
        }                                                                                          \
        free(nodes_);                                                                              \
    } while (0)

/* The keys of a made-up trace are random: makes them lead somewhere. */
static inline void link_keys(struct tree *t)
{
    size_t n;
    uint32_t *strings = tree_nodes(t, REC_STRING, &n);
#define SOME_KEY(I) NODE_REC(t, string, strings[(I) % n])->key
    EACH_NODE(t, STRING_POINTER, pair, {
        r->key = at;
        r->value = SOME_KEY(at + 7);
    });
    EACH_NODE(t, THREAD_NAME, pair, r->value = SOME_KEY(at + 13));
    EACH_NODE(t, EXTERNAL_NAME, external_name, {
        r->program_key = SOME_KEY(at + 17);
        r->thread_key = SOME_KEY(at + 20);
    });
    free(strings);
#undef SOME_KEY
    uint32_t *locations = tree_nodes(t, REC_SOURCE_LOCATION, &n);
    EACH_NODE(t, SOURCE_LOCATION_EXPAND, id,
              r->id = at == 0 ? 0 : NODE_REC(t, source_location, locations[at % n])->pointer);
    free(locations);
    uint32_t *frames = tree_nodes(t, REC_CALLSTACK_FRAME, &n);
    EACH_NODE(t, CALLSTACK, callstack, {
        uint64_t *ids = (uint64_t *)r->frames;
        ids[0] = NODE_REC(t, callstack_frame, frames[at % n])->frame;
    });
    free(frames);
    uint32_t *messages = tree_nodes(t, REC_MESSAGE, &n);
    EACH_NODE(t, THREAD_MESSAGE, id, {
        if (at < n)
            r->id = NODE_REC(t, message, messages[at])->key;
    });
    free(messages);
}

static inline void make_sample(struct tree *t, const struct file_layout *layout, uint64_t seed)
{
    static struct sample s;
    struct record_sink sink = tree_sink(t);
    struct err e = {0};
    sample_init(&s, layout, seed);
    s.brief = true;
    assert_int_equal(sample_trace(&s, &sink, &e), 0);
    link_keys(t);
}

static inline void read_fixture(struct tree *t, const char *path)
{
    struct record_sink sink = tree_sink(t);
    struct trace_info info;
    struct err e = {0};
    int fd = open_fixture(path);
    if (trace_read(fd, path, &sink, NULL, &info, &e) != 0)
        fail_msg("%s", e.text);
    close(fd);
}

#endif
