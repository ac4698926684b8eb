/* Each strip letter empties its lists and leaves everything else alone. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "trace/filter/strip.h"
#include "trace_sample.h"
#include "trace_test.h"

static void expect_ok(int status, const char *what, const struct err *e)
{
    if (status != 0)
        fail_msg("%s: %s", what, e->text);
}

static void make_trace(const struct file_layout *layout, uint64_t seed, struct buf *out)
{
    static struct sample sample;
    struct err e = {0};
    struct trace_writer *w;
    struct block_sink blocks = {.ctx = out, .put = put_block_to_buf};
    sample_init(&sample, layout, seed);
    assert_int_equal(trace_writer_open_inner(&w, layout, blocks, &e), 0);
    struct record_sink sink = trace_writer_sink(w);
    expect_ok(sample_trace(&sample, &sink, &e), "made-up trace", &e);
    expect_ok(trace_writer_finish(w, NULL, &e), "made-up trace", &e);
    trace_writer_free(w);
}

/* Strips a trace; `skip` leaves it to the reader not to put what would be dropped. */
static void strip_trace(const struct buf *in, const char *letters, bool skip, struct buf *out)
{
    struct trace_writer *w;
    struct strip strip;
    struct trace_info info;
    struct err e = {0};
    bool wanted[REC_TYPE_COUNT];
    struct memory_source m = {in->data, in->len, 0, SIZE_MAX};
    struct byte_source source = {&m, read_memory_source};
    struct block_sink blocks = {.ctx = out, .put = put_block_to_buf};
    assert_int_equal(trace_writer_open_inner(&w, NULL, blocks, &e), 0);
    struct record_sink to_writer = trace_writer_sink(w);
    strip_init(&strip, &to_writer);
    struct record_sink to_strip = strip_sink(&strip);
    assert_int_equal(strip_add(&strip, letters, &e), 0);
    memset(wanted, true, sizeof wanted);
    strip_unwanted(&strip, wanted);
    const struct trace_read_options options = {.wanted = skip ? wanted : NULL};
    expect_ok(trace_read_inner(source, &to_strip, &options, &info, &e), letters, &e);
    expect_ok(trace_writer_finish(w, NULL, &e), letters, &e);
    trace_writer_free(w);
}

/* Per type the number of records, and a hash of them all but for what stripping changes in place.
 */
struct summary {
    uint64_t counts[REC_TYPE_COUNT];
    uint64_t images_used;
    struct rec_pool pool;
    struct rec_pool_end pool_end;
    uint64_t parts[TRACE_PART_COUNT];
};

static int put_summary(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    struct summary *s = ctx;
    (void)e;
    s->counts[type] += n;
    for (size_t i = 0; i < n; i++) {
        const void *rec = (const uint8_t *)recs + i * record_size(type);
        if (type == REC_FRAME)
            s->images_used += ((const struct rec_frame *)rec)->image >= 0;
        if (type == REC_POOL)
            s->pool = *(const struct rec_pool *)rec;
        if (type == REC_POOL_END)
            s->pool_end = *(const struct rec_pool_end *)rec;
    }
    return 0;
}

static void summarize(const struct buf *inner, struct summary *s)
{
    struct trace_info info;
    struct err e = {0};
    struct record_sink sink = {s, put_summary};
    memset(s, 0, sizeof *s);
    expect_ok(read_inner_into(inner->data, inner->len, 65536, &sink, &info, &e), "stripped", &e);
    memcpy(s->parts, info.part_bytes, sizeof s->parts);
}

/* What a letter empties: the record types that vanish, and the part of the file they are in. */
static const struct {
    const char *letter;
    enum trace_part part;
    uint64_t part_bytes; /* what stays of it; 0: it shrinks */
    enum record_type gone[6];
} letters[] = {
    {"l", PART_LOCKS, 8, {REC_LOCK, REC_LOCK_THREAD, REC_LOCK_EVENTS, REC_LOCK_EVENT}},
    {"m", PART_MESSAGES, 8, {REC_MESSAGE, REC_THREAD_MESSAGE}},
    {"p", PART_PLOTS, 8, {REC_PLOT, REC_PLOT_POINT}},
    {"M", PART_MEMORY, 80, {REC_MEMORY_EVENT}},
    {"i", PART_FRAME_IMAGES, 12, {REC_FRAME_IMAGE}},
    {"c",
     PART_CONTEXT_SWITCHES,
     8,
     {REC_CONTEXT_SWITCH_THREAD, REC_CONTEXT_SWITCH, REC_CPU_SWITCH}},
    {"s", PART_THREADS, 0, {REC_SWITCH_SAMPLE, REC_SAMPLE}},
    {"C", PART_SYMBOL_CODE, 8, {REC_SYMBOL_CODE}},
    {"S", PART_SOURCE_FILES, 8, {REC_SOURCE_FILE}},
};

static bool is_gone(size_t letter, enum record_type type)
{
    for (size_t i = 0; i < 6; i++) {
        if (letters[letter].gone[i] != REC_HEADER && letters[letter].gone[i] == type)
            return true;
    }
    return false;
}

static void check_letter(size_t i, const struct summary *before, const struct summary *after)
{
    for (unsigned type = 0; type < REC_TYPE_COUNT; type++) {
        if (is_gone(i, type)) {
            assert_true(before->counts[type] > 0);
            assert_int_equal(after->counts[type], 0);
        } else if (letters[i].letter[0] != 'M' || (type != REC_POOL && type != REC_POOL_END)) {
            assert_int_equal(after->counts[type], before->counts[type]);
        }
    }
    for (unsigned part = 0; part < TRACE_PART_COUNT; part++) {
        bool also = (letters[i].letter[0] == 'm' && part == PART_THREADS) ||
                    (letters[i].letter[0] == 'c' && part == PART_CPU_SWITCHES);
        if (part == letters[i].part && letters[i].part_bytes)
            assert_int_equal(after->parts[part], letters[i].part_bytes);
        else if (part == letters[i].part || also)
            assert_true(after->parts[part] < before->parts[part]);
        else
            assert_int_equal(after->parts[part], before->parts[part]);
    }
    if (letters[i].letter[0] == 'c')
        assert_int_equal(after->parts[PART_CPU_SWITCHES], 2056);
    if (letters[i].letter[0] != 'i')
        assert_int_equal(after->images_used, before->images_used);
    else
        assert_int_equal(after->images_used, 0);
}

static void test_letters(void **state)
{
    (void)state;
    unsigned n;
    const struct file_layout *all = file_layout_all(&n);
    for (unsigned k = 0; k < n; k += 5) {
        struct buf inner = {0};
        struct summary before, after;
        make_trace(&all[k], 8, &inner);
        summarize(&inner, &before);
        assert_true(before.images_used > 0);
        for (size_t i = 0; i < sizeof letters / sizeof letters[0]; i++) {
            struct buf stripped = {0}, skipped = {0};
            strip_trace(&inner, letters[i].letter, false, &stripped);
            strip_trace(&inner, letters[i].letter, true, &skipped);
            assert_bytes_equal(&skipped, &stripped);
            summarize(&stripped, &after);
            check_letter(i, &before, &after);
            buf_release(&stripped);
            buf_release(&skipped);
        }
        buf_release(&inner);
    }
}

/* The empty default pool is what captures without allocations have. */
static void test_memory_leaves_an_empty_pool(void **state)
{
    (void)state;
    struct buf inner = {0}, stripped = {0};
    struct summary s;
    make_trace(file_layout_find(FILE_VERSION_MAX), 8, &inner);
    strip_trace(&inner, "M", true, &stripped);
    summarize(&stripped, &s);
    assert_int_equal(s.counts[REC_POOL], 1);
    assert_int_equal(s.pool.key | s.pool.events | s.pool.active | s.pool.frees, 0);
    assert_int_equal(s.pool_end.high | s.pool_end.usage | s.pool_end.name, 0);
    assert_true(s.pool_end.low == UINT64_MAX);
    buf_release(&inner);
    buf_release(&stripped);
}

static void test_the_corpus_stripped_of_everything(void **state)
{
    (void)state;
    for (size_t i = 0; i < TRACE_FIXTURES; i++) {
        struct buf inner = {0}, stripped = {0}, again = {0};
        struct summary s;
        struct err e = {0};
        int fd = open_fixture(trace_fixtures[i]);
        expect_ok(unpack(fd, &inner, &e), trace_fixtures[i], &e);
        strip_trace(&inner, "lmpMicsCS", true, &stripped);
        summarize(&stripped, &s);
        assert_int_equal(s.counts[REC_MEMORY_EVENT] + s.counts[REC_MESSAGE] + s.counts[REC_LOCK] +
                             s.counts[REC_SAMPLE],
                         0);
        assert_true(s.counts[REC_CALLSTACK] > 0 && s.counts[REC_ZONE_BEGIN] > 0);
        strip_trace(&stripped, "lmpMicsCS", false, &again);
        assert_bytes_equal(&again, &stripped);
        close(fd);
        buf_release(&inner);
        buf_release(&stripped);
        buf_release(&again);
    }
}

static void test_unknown_letters(void **state)
{
    (void)state;
    struct strip s;
    struct err e = {0};
    struct record_sink nowhere = {NULL, put_nowhere};
    strip_init(&s, &nowhere);
    assert_int_equal(strip_add(&s, "", &e), 0);
    assert_int_equal(strip_add(&s, "lx", &e), -1);
    assert_int_equal(e.code, ERR_USAGE);
    assert_string_equal(e.text, "'x' names nothing to strip (known: l m p M i c s C S)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_letters),
        cmocka_unit_test(test_memory_leaves_an_empty_pool),
        cmocka_unit_test(test_the_corpus_stripped_of_everything),
        cmocka_unit_test(test_unknown_letters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
