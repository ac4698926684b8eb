/* Figures counted while a trace is read, held against those of the sweep over a loaded one. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analysis/figures/stream_figures.h"
#include "analysis/figures/summary.h"
#include "base/buf.h"
#include "test/unit/analysis_fixture.h"
#include "test/unit/random_history.h"
#include "test/unit/summary_compare.h"
#include "test/unit/trace_test.h"
#include "trace/load/load.h"
#include "trace/save/save.h"

/* ---- the two ways */

struct answer {
    struct stream_figures stream;
    struct trace trace;
    struct summary summary;
};

static void build(struct answer *a, struct summary_options options)
{
    struct err e = {0};
    assert_true(summary_streams(&options) == !options.only);
    options.stream = a->stream.counted ? &a->stream : NULL;
    if (summary_build(&a->summary, &a->trace, &options, &e) != 0)
        fail_msg("%s", e.text);
}

static void answer_begin(struct answer *a, const char *path, bool stream)
{
    struct err e = {0};
    memset(a, 0, sizeof *a);
    assert_int_equal(trace_init(&a->trace, NULL, &e), 0);
    stream_figures_init(&a->stream, &a->trace);
    a->stream.by_thread = true;
    int status = stream ? stream_figures_load(&a->stream, path, NULL, NULL, &e)
                        : trace_load(&a->trace, path, NULL, NULL, &e);
    if (status != 0)
        fail_msg("%s: %s", path, e.text);
}

static void answer_end(struct answer *a)
{
    stream_figures_release(&a->stream);
    trace_release(&a->trace);
}

/* Whether the file at `path` can be counted while it is read; all figures are the same anyway. */
static bool compare_ways(const char *path, const char *pool)
{
    static const enum grouping all[] = {GROUP_SITE, GROUP_FUNCTION, GROUP_CALLSTACK,
                                        GROUP_TYPE, GROUP_POOL,     GROUP_THREAD};
    const struct selection_options every = EVERY_BLOCK(pool);
    struct answer stream, store, swept;
    answer_begin(&stream, path, true);
    answer_begin(&store, path, false);
    answer_begin(&swept, path, false);
    for (size_t i = 0; i < 2 * sizeof all / sizeof *all; i++) {
        struct summary_options o = {.by = all[i / 2], .stacks = i % 2, .pool = pool};
        build(&stream, o);
        build(&store, o);
        o.only = &every;
        build(&swept, o);
        compare(&stream.summary, &swept.summary);
        compare(&store.summary, &swept.summary);
        summary_release(&stream.summary);
        summary_release(&store.summary);
        summary_release(&swept.summary);
    }
    bool counted = stream.stream.counted;
    answer_end(&stream);
    answer_end(&store);
    answer_end(&swept);
    return counted;
}

/* The same of a trace in memory. */
static bool compare_saved(struct trace *t, const char *pool)
{
    struct err e = {0};
    struct trace_writer *w;
    struct trace_write_stats stats;
    struct record_sink sink;
    char path[32];
    int fd = memfd_create("trace", MFD_CLOEXEC);
    assert_true(fd >= 0);
    const struct trace_writer_options options = {.container = container_options_default()};
    assert_int_equal(trace_writer_open(&w, fd, &options, &e), 0);
    sink = trace_writer_sink(w);
    if (trace_save(t, &sink, &e) != 0 || trace_writer_finish(w, &stats, &e) != 0)
        fail_msg("%s", e.text);
    trace_writer_free(w);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    bool counted = compare_ways(path, pool);
    close(fd);
    return counted;
}

/* ---- traces */

static void test_random_histories(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct random_history h;
        rh_make_pools(&h, seed, "one", "two");
        assert_true(compare_saved(&h.trace, NULL));
        assert_true(compare_saved(&h.trace, "two"));
        rh_release(&h);
    }
}

/* A store may name threads that it does not list, since a test or a caller may fill it so. */
static void test_a_store_with_unlisted_threads_is_swept(void **state)
{
    (void)state;
    struct fixture f;
    struct summary counted, swept;
    const struct rec_memory_event ev = {
        .ptr = 64, .size = 5, .time_alloc = 3, .time_free = 9, .thread_alloc = 40000};
    const struct selection_options every = EVERY_BLOCK(NULL);
    struct summary_options options = {.by = GROUP_SITE};
    fixture_init(&f);
    assert_int_equal(memory_append(&f.trace.memory, 0, &ev, &f.e), 0);
    assert_int_equal(summary_build(&counted, &f.trace, &options, &f.e), 0);
    options.only = &every;
    assert_int_equal(summary_build(&swept, &f.trace, &options, &f.e), 0);
    assert_int_equal(counted.allocations, 1);
    compare(&counted, &swept);
    summary_release(&counted);
    summary_release(&swept);
    trace_release(&f.trace);
}

static void test_pools_of_one_name_are_read_again(void **state)
{
    (void)state;
    struct random_history h;
    rh_make(&h, 3);
    assert_false(compare_saved(&h.trace, NULL));
    assert_false(compare_saved(&h.trace, "twin"));
    rh_release(&h);
}

/* Blocks of odd sizes and times in one pool: `jump_back` makes them come out of order. */
static void add_odd(struct fixture *f, uint32_t pool, const uint32_t *stacks, unsigned n,
                    bool jump_back)
{
    uint64_t seed = 7;
    int64_t now = 1;
    for (unsigned i = 0; i < n; i++) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        unsigned r = (unsigned)(seed >> 40);
        now += r % 5 == 0 ? r % 7000 : 0;
        int64_t time = jump_back && r % 50 == 1 && now > 3000 ? now - 3000 : now;
        int64_t after = r % 11 == 0 ? -1 : r % 3 == 0 ? 0 : (int64_t)(seed >> 48) * (r % 100 + 1);
        struct rec_memory_event ev = {.ptr = seed >> 8,
                                      .size = r % 13 == 0   ? UINT64_C(0xffffffffffff) - r
                                              : r % 17 == 0 ? (UINT64_C(1) << 39) - 1 + r % 2
                                                            : r % 5000,
                                      .time_alloc = time,
                                      .time_free = after < 0 ? -1 : time + after,
                                      .callstack_alloc = stacks[r % 8],
                                      .callstack_free = stacks[r % 5],
                                      .thread_alloc = (uint16_t)(r / 8 % 3),
                                      .thread_free = (uint16_t)(r / 32 % 3)};
        assert_int_equal(memory_append(&f->trace.memory, pool, &ev, &f->e), 0);
    }
    f->trace.facts.last_time = now;
}

static void make_odd(struct fixture *f, uint32_t *pools, uint32_t stacks[8])
{
    uint16_t number;
    fixture_init(f);
    assert_int_equal(trace_thread_number(&f->trace, 71, &number, &f->e), 0);
    assert_int_equal(trace_thread_number(&f->trace, 72, &number, &f->e), 0);
    pools[0] = 0;
    pools[1] = fixture_pool(f, 0x100, "gfx");
    stacks[0] = 0;
    for (unsigned i = 1; i < 8; i++) {
        char name[16];
        snprintf(name, sizeof name, "work%u", i / 2);
        stacks[i] = fixture_stack(f, UINT64_C(0x1000) * i, name, "a.c", i / 3);
    }
}

static void test_odd_blocks(void **state)
{
    (void)state;
    struct fixture f;
    uint32_t pools[2], stacks[8];
    make_odd(&f, pools, stacks);
    add_odd(&f, pools[0], stacks, 6000, false);
    add_odd(&f, pools[1], stacks, 6000, false);
    assert_true(compare_saved(&f.trace, NULL));
    trace_release(&f.trace);
}

/* So many events that a thread counts them; small pools before and behind. */
static void test_many_events(void **state)
{
    (void)state;
    struct fixture f;
    uint32_t pools[2], stacks[8];
    make_odd(&f, pools, stacks);
    add_odd(&f, pools[0], stacks, 70000, false);
    add_odd(&f, pools[1], stacks, 30, false);
    uint32_t third = fixture_pool(&f, 0x200, "third");
    add_odd(&f, third, stacks, 30000, false);
    assert_true(compare_saved(&f.trace, NULL));
    assert_true(compare_saved(&f.trace, "gfx"));
    trace_release(&f.trace);
}

/* So many that the log of the steps is gone through in two halves at the same time. */
static void test_long_log(void **state)
{
    (void)state;
    struct fixture f;
    uint32_t pools[2], stacks[8];
    make_odd(&f, pools, stacks);
    add_odd(&f, pools[0], stacks, 190000, false);
    add_odd(&f, pools[1], stacks, 100, false);
    assert_true(compare_saved(&f.trace, NULL));
    trace_release(&f.trace);
}

/* Many blocks that go while few come: their frees do not fit one portion with the allocations. */
static void test_more_frees_than_allocations(void **state)
{
    (void)state;
    struct fixture f;
    uint32_t pools[2], stacks[8];
    make_odd(&f, pools, stacks);
    for (unsigned i = 0; i < 60000; i++) {
        bool late = i >= 50000;
        struct rec_memory_event ev = {.ptr = i,
                                      .size = i % 17 == 0 ? (UINT64_C(1) << 39) + i : i % 900,
                                      .time_alloc = late ? 100000 + (i - 50000) * 9 : i,
                                      .time_free = late ? -1 : 100000 + (int64_t)(i * 7 % 80000),
                                      .callstack_alloc = stacks[i % 8],
                                      .thread_alloc = (uint16_t)(i % 3),
                                      .thread_free = (uint16_t)(i / 5 % 3)};
        if (late && i % 4 == 0)
            ev.time_free = ev.time_alloc + i % 3;
        assert_int_equal(memory_append(&f.trace.memory, pools[0], &ev, &f.e), 0);
    }
    f.trace.facts.last_time = 300000;
    assert_true(compare_saved(&f.trace, NULL));
    trace_release(&f.trace);
}

/* What the counters have no room for is left to the sweep. */
static void test_sums_beyond_all(void **state)
{
    (void)state;
    struct fixture f;
    uint32_t pools[2], stacks[8];
    make_odd(&f, pools, stacks);
    for (unsigned i = 0; i < 70000; i++) {
        struct rec_memory_event ev = {.ptr = i,
                                      .size = UINT64_C(0xffffffffffff),
                                      .time_alloc = i,
                                      .time_free = i % 9 ? (int64_t)(i + i % 5) : -1,
                                      .callstack_alloc = stacks[i % 8]};
        assert_int_equal(memory_append(&f.trace.memory, pools[0], &ev, &f.e), 0);
    }
    f.trace.facts.last_time = 80000;
    assert_false(compare_saved(&f.trace, NULL));
    trace_release(&f.trace);
}

static void test_disorder(void **state)
{
    (void)state;
    struct fixture f;
    uint32_t pools[2], stacks[8];
    make_odd(&f, pools, stacks);
    add_odd(&f, pools[1], stacks, 6000, true);
    assert_true(f.trace.memory.pools.at[pools[1]]->disorder > 0);
    assert_true(compare_saved(&f.trace, NULL));
    /* Beside another pool, on whose clock it would have a part, it is left to the sweep. */
    add_odd(&f, pools[0], stacks, 6000, false);
    assert_false(compare_saved(&f.trace, NULL));
    trace_release(&f.trace);
}

static void test_fixtures(void **state)
{
    (void)state;
    for (size_t i = 0; i < TRACE_FIXTURES; i++)
        assert_true(compare_ways(trace_fixtures[i], NULL));
}

/* ---- what goes wrong */

/* Events that name call stacks far apart, as no program's do, before it is known that there are
 * none. */
static void put_far_callstacks(struct stream_figures *f, uint64_t pools, uint64_t events,
                               struct err *e)
{
    const struct record_sink sink = stream_figures_sink(f);
    for (uint64_t i = 0; i < pools; i++) {
        struct rec_pool pool = {.key = 16 * i, .events = events};
        if (record_put(&sink, REC_POOL, &pool, 1, e) != 0)
            return;
        for (uint64_t k = 0; k < events; k++) {
            struct rec_memory_event r = {.time_free = -1,
                                         .callstack_alloc = 0xffffff - (uint32_t)(64 * k)};
            if (record_put(&sink, REC_MEMORY_EVENT, &r, 1, e) != 0)
                return;
        }
        if (record_put(&sink, REC_POOL_END, &(struct rec_pool_end){0}, 1, e) != 0)
            return;
    }
}

static void test_memory_for_call_stacks_far_apart(void **state)
{
    (void)state;
    static const struct {
        uint64_t pools, events;
        bool unsuited;
    } cases[] = {{1, 1000, false}, {1, 100000, true}, {4, 1, false}, {1000, 1, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct answer a = {0};
        struct err e = {0};
        assert_int_equal(trace_init(&a.trace, NULL, &e), 0);
        stream_figures_init(&a.stream, &a.trace);
        put_far_callstacks(&a.stream, cases[i].pools, cases[i].events, &e);
        assert_int_equal(a.stream.unsuited, cases[i].unsuited);
        assert_int_equal(e.code, cases[i].unsuited ? ERR_INPUT : 0);
        assert_true(a.stream.counting.counter_pages < 10000);
        answer_end(&a);
    }
}

static void test_questions_that_need_more(void **state)
{
    (void)state;
    const struct selection_options size = {.has_size = true, .size_max = 5};
    assert_true(summary_streams(&(struct summary_options){.by = GROUP_SITE}));
    assert_true(summary_streams(&(struct summary_options){.by = GROUP_THREAD}));
    assert_false(summary_streams(&(struct summary_options){.by = GROUP_ZONE}));
    assert_false(summary_streams(&(struct summary_options){.by = GROUP_FRAME}));
    assert_false(summary_streams(&(struct summary_options){.by = GROUP_SITE, .only = &size}));
}

/* A damaged file is refused as ever, and is not read twice. */
static void test_damaged_file(void **state)
{
    (void)state;
    struct buf bytes = {0};
    int from = open_fixture("fixtures/traces/v0.14.0/memscen_mt.tracy");
    read_file(from, &bytes);
    close(from);
    for (unsigned i = 1; i < 20; i++) {
        struct err stream_error = {0}, store_error = {0};
        struct answer a = {0};
        char path[32];
        int fd = memory_file(bytes.data, bytes.len * i / 20);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        assert_int_equal(trace_init(&a.trace, NULL, &stream_error), 0);
        stream_figures_init(&a.stream, &a.trace);
        assert_int_equal(stream_figures_load(&a.stream, path, NULL, NULL, &stream_error), -1);
        assert_false(a.stream.unsuited || a.stream.counted);
        answer_end(&a);
        assert_int_equal(trace_init(&a.trace, NULL, &store_error), 0);
        assert_int_equal(trace_load(&a.trace, path, NULL, NULL, &store_error), -1);
        trace_release(&a.trace);
        assert_int_equal(stream_error.code, ERR_INPUT);
        assert_string_equal(stream_error.text, store_error.text);
        close(fd);
    }
    buf_release(&bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_histories),
        cmocka_unit_test(test_a_store_with_unlisted_threads_is_swept),
        cmocka_unit_test(test_pools_of_one_name_are_read_again),
        cmocka_unit_test(test_odd_blocks),
        cmocka_unit_test(test_many_events),
        cmocka_unit_test(test_long_log),
        cmocka_unit_test(test_more_frees_than_allocations),
        cmocka_unit_test(test_sums_beyond_all),
        cmocka_unit_test(test_disorder),
        cmocka_unit_test(test_fixtures),
        cmocka_unit_test(test_questions_that_need_more),
        cmocka_unit_test(test_memory_for_call_stacks_far_apart),
        cmocka_unit_test(test_damaged_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
