/* Steps and answers of a sweep that reads the file, held against those of a loaded trace. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analysis/questions/growth.h"
#include "analysis/questions/histograms.h"
#include "analysis/questions/leaks.h"
#include "analysis/questions/patterns.h"
#include "test/unit/analysis_fixture.h"
#include "test/unit/random_history.h"
#include "test/unit/trace_test.h"
#include "trace/load/load.h"
#include "trace/load/load_replay.h"
#include "trace/save/save.h"

/* ---- the two ways */

struct steps {
    VEC(struct memory_op) of[RH_POOLS];
};

static int keep(void *ctx, const struct memory_op *op, struct err *e)
{
    struct steps *s = ctx;
    (void)e;
    assert_true(op->pool < RH_POOLS);
    assert_true(vec_push(&s->of[op->pool], *op));
    return 0;
}

static void compare_op(const struct memory_op *a, const struct memory_op *b)
{
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->pool, b->pool);
    assert_int_equal(a->time, b->time);
    assert_int_equal(a->thread, b->thread);
    assert_int_equal(a->callstack, b->callstack);
    assert_int_equal(a->block.ptr, b->block.ptr);
    assert_int_equal(a->block.size, b->block.size);
    assert_int_equal(a->block.time, b->block.time);
    assert_int_equal(a->block.index, b->block.index);
    assert_int_equal(a->block.callstack, b->block.callstack);
    assert_int_equal(a->block.thread, b->block.thread);
    assert_int_equal(a->freed, b->freed);
    assert_int_equal(a->temporary, b->temporary);
}

static void compare_steps(struct selection *a, struct selection *b)
{
    struct steps x = {0}, y = {0};
    struct err e = {0};
    const struct memory_observer to_x = {.ctx = &x, .op = keep}, to_y = {.ctx = &y, .op = keep};
    assert_int_equal(selection_sweep(a, &to_x, &e), 0);
    assert_int_equal(selection_sweep(b, &to_y, &e), 0);
    for (unsigned i = 0; i < RH_POOLS; i++) {
        assert_int_equal(x.of[i].len, y.of[i].len);
        for (size_t k = 0; k < x.of[i].len; k++)
            compare_op(&x.of[i].at[k], &y.of[i].at[k]);
        vec_release(&x.of[i]);
        vec_release(&y.of[i]);
    }
}

struct answers {
    struct leaks leaks;
    struct growth growth;
    struct patterns patterns;
    struct histograms histograms;
};

static void answer(struct answers *a, struct selection *s, bool histograms)
{
    struct err e = {0};
    struct selection_pass passes[4];
    size_t n = 0;
    assert_int_equal(leaks_begin(&passes[n++], &a->leaks, s, NULL, NULL, &e), 0);
    assert_int_equal(growth_begin(&passes[n++], &a->growth, s, NULL, 50, 400, &e), 0);
    assert_int_equal(patterns_begin(&passes[n++], &a->patterns, s, NULL, &e), 0);
    if (histograms)
        assert_int_equal(histograms_begin(&passes[n++], &a->histograms, s, &e), 0);
    assert_int_equal(selection_answer(s, passes, n, 0, &e), 0);
}

static void release(struct answers *a)
{
    leaks_release(&a->leaks);
    growth_release(&a->growth);
    patterns_release(&a->patterns);
}

static void compare_leaks(const struct leaks *a, const struct leaks *b)
{
    assert_int_equal(a->begin, b->begin);
    assert_int_equal(a->end, b->end);
    assert_int_equal(a->rows.len, b->rows.len);
    for (size_t i = 0; i < a->rows.len; i++) {
        const struct leak_row *x = &a->rows.at[i], *y = &b->rows.at[i];
        assert_int_equal(x->kind, y->kind);
        assert_int_equal(x->pool, y->pool);
        assert_int_equal(x->callstack, y->callstack);
        assert_int_equal(x->count, y->count);
        assert_int_equal(x->bytes, y->bytes);
        assert_int_equal(x->allocations, y->allocations);
        assert_int_equal(x->first, y->first);
        assert_int_equal(x->last, y->last);
        assert_int_equal(x->spread, y->spread);
        assert_true(x->z == y->z && x->rate == y->rate);
    }
}

static void compare_growth(const struct growth *a, const struct growth *b)
{
    assert_int_equal(a->bytes_before, b->bytes_before);
    assert_int_equal(a->count_after, b->count_after);
    assert_int_equal(a->rows.len, b->rows.len);
    for (size_t i = 0; i < a->rows.len; i++) {
        const struct growth_row *x = &a->rows.at[i], *y = &b->rows.at[i];
        assert_int_equal(x->pool, y->pool);
        assert_int_equal(x->callstack, y->callstack);
        assert_int_equal(x->bytes_before, y->bytes_before);
        assert_int_equal(x->bytes_after, y->bytes_after);
        assert_int_equal(x->allocations, y->allocations);
        assert_int_equal(x->frees, y->frees);
    }
}

static void compare_patterns(const struct patterns *a, const struct patterns *b)
{
    assert_int_equal(a->rows.len, b->rows.len);
    for (size_t i = 0; i < a->rows.len; i++) {
        const struct pattern_row *x = &a->rows.at[i], *y = &b->rows.at[i];
        assert_int_equal(x->pool, y->pool);
        assert_int_equal(x->callstack, y->callstack);
        /* All figures: uint64_t, from `count` on. */
        assert_memory_equal(&x->count, &y->count, sizeof *x - offsetof(struct pattern_row, count));
    }
}

static void compare_answers(struct selection *a, struct selection *b, bool histograms)
{
    struct answers x = {0}, y = {0};
    answer(&x, a, histograms);
    answer(&y, b, histograms);
    compare_leaks(&x.leaks, &y.leaks);
    compare_growth(&x.growth, &y.growth);
    compare_patterns(&x.patterns, &y.patterns);
    assert_memory_equal(&x.histograms, &y.histograms, sizeof x.histograms);
    release(&x);
    release(&y);
}

static int sum(void *ctx, const struct memory_op *op, struct err *e)
{
    return op->kind == MEMORY_FREE ? 0 : memory_sum_stack(ctx, op->callstack, 1, op->block.size, e);
}

/* Loads what is known of a file before its events: names, and the pools as `loaded` has them. */
static void load_before(struct trace *t, struct trace *loaded, const char *path)
{
    struct err e = {0};
    const struct memory_observer to = {.ctx = &t->memory, .op = sum};
    const struct memory *m = &loaded->memory;
    assert_int_equal(trace_load_names(t, path, &e), 0);
    for (size_t i = 0; i < m->pools.len; i++) {
        uint32_t number;
        assert_int_equal(memory_pool(&t->memory, m->pools.at[i]->key, &number, &e), 0);
        assert_int_equal(number, i);
        struct pool *p = t->memory.pools.at[i];
        p->totals = m->pools.at[i]->totals;
        p->first_time = m->pools.at[i]->first_time;
        p->last_time = m->pools.at[i]->last_time;
        p->disorder = m->pools.at[i]->disorder;
    }
    assert_int_equal(memory_sweep(&loaded->memory, -1, &to, &e), 0);
}

/* Whether the events can stay in the file. */
static bool compare_selected(const char *path, const struct selection_options *o, bool in_turn)
{
    struct trace loaded, read;
    struct selection a, b;
    struct err e = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(trace_init(&loaded, NULL, &e), 0);
    assert_int_equal(trace_init(&read, NULL, &e), 0);
    assert_int_equal(trace_load(&loaded, path, NULL, NULL, &e), 0);
    load_before(&read, &loaded, path);
    bool stays = trace_replay(&read, fd, path, in_turn);
    if (stays) {
        assert_int_equal(selection_init(&a, &loaded, o, &e), 0);
        assert_int_equal(selection_init(&b, &read, o, &e), 0);
        compare_steps(&a, &b);
        compare_answers(&a, &b, !in_turn);
        compare_answers(&b, &b, !in_turn); /* it can be swept again */
        selection_release(&a);
        selection_release(&b);
    } else {
        close(fd);
    }
    trace_release(&loaded);
    trace_release(&read);
    return stays;
}

static bool compare_ways(const char *path, bool in_turn)
{
    static const struct selection_options options[] = {
        {0},
        {.has_size = true, .size_min = 100, .size_max = UINT64_MAX},
        {.has_range = true, .begin = 100, .end = 600},
        {.has_at = true, .at = 300},
    };
    bool stays = true;
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        stays &= compare_selected(path, &options[i], in_turn);
    return stays;
}

static bool compare_saved(struct trace *t, bool in_turn)
{
    struct err e = {0};
    struct trace_writer *w;
    struct trace_write_stats stats;
    char path[32];
    int fd = memfd_create("trace", MFD_CLOEXEC);
    assert_true(fd >= 0);
    const struct trace_writer_options options = {.container = container_options_default()};
    assert_int_equal(trace_writer_open(&w, fd, &options, &e), 0);
    const struct record_sink sink = trace_writer_sink(w);
    if (trace_save(t, &sink, &e) != 0 || trace_writer_finish(w, &stats, &e) != 0)
        fail_msg("%s", e.text);
    trace_writer_free(w);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    bool stays = compare_ways(path, in_turn);
    close(fd);
    return stays;
}

/* ---- traces */

static void test_random_histories(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct random_history h;
        rh_make_pools(&h, seed, "one", "two");
        assert_true(compare_saved(&h.trace, true));
        assert_false(compare_saved(&h.trace, false)); /* several pools, in one order of time */
        rh_release(&h);
    }
}

static void test_pools_of_one_name_are_loaded(void **state)
{
    (void)state;
    struct random_history h;
    rh_make(&h, 3);
    assert_false(compare_saved(&h.trace, true));
    rh_release(&h);
}

/* One pool, in which times may run backwards; so many events that a second thread answers. */
static void add_blocks(struct fixture *f, uint32_t pool, const uint32_t *stacks, unsigned n,
                       bool jump_back)
{
    uint64_t seed = 7;
    int64_t now = 1;
    for (unsigned i = 0; i < n; i++) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        unsigned r = (unsigned)(seed >> 40);
        now += r % 5 == 0 ? r % 70 : 0;
        int64_t time = jump_back && r % 50 == 1 && now > 300 ? now - 300 : now;
        int64_t after = r % 11 == 0 ? -1 : r % 3 == 0 ? 0 : (int64_t)(seed >> 54);
        const struct rec_memory_event ev = {.ptr = (seed >> 8) % 5000 * 64,
                                            .size = r % 5000,
                                            .time_alloc = time,
                                            .time_free = after < 0 ? -1 : time + after,
                                            .callstack_alloc = stacks[r % 3],
                                            .callstack_free = stacks[r % 2],
                                            .thread_alloc = (uint16_t)(r / 8 % 2),
                                            .thread_free = (uint16_t)(r / 32 % 2)};
        assert_int_equal(memory_append(&f->trace.memory, pool, &ev, &f->e), 0);
    }
    f->trace.facts.last_time = now;
}

static void make_blocks(struct fixture *f, uint32_t stacks[3])
{
    uint16_t number;
    fixture_init(f);
    assert_int_equal(trace_thread_number(&f->trace, 71, &number, &f->e), 0);
    stacks[0] = 0;
    stacks[1] = fixture_stack(f, 0x1000, "work", "a.c", 1);
    stacks[2] = fixture_stack(f, 0x2000, "more", "a.c", 2);
}

static void test_one_pool(void **state)
{
    (void)state;
    for (int jump_back = 0; jump_back < 2; jump_back++) {
        struct fixture f;
        uint32_t stacks[3];
        make_blocks(&f, stacks);
        add_blocks(&f, 0, stacks, 30000, jump_back);
        assert_int_equal(f.trace.memory.pools.at[0]->disorder > 0, jump_back);
        assert_true(compare_saved(&f.trace, true));
        assert_true(compare_saved(&f.trace, false));
        trace_release(&f.trace);
    }
}

/* Times that run backwards have a part on the clock of other pools. */
static void test_disorder_beside_a_pool_is_loaded(void **state)
{
    (void)state;
    struct fixture f;
    uint32_t stacks[3];
    make_blocks(&f, stacks);
    add_blocks(&f, 0, stacks, 3000, true);
    add_blocks(&f, fixture_pool(&f, 0x100, "gfx"), stacks, 3000, false);
    assert_false(compare_saved(&f.trace, true));
    trace_release(&f.trace);
}

static void test_fixtures(void **state)
{
    (void)state;
    for (size_t i = 0; i < TRACE_FIXTURES; i++)
        (void)compare_ways(trace_fixtures[i], true);
}

/* A file that was cut since, or has no such pool. */
static void test_a_file_that_changed(void **state)
{
    (void)state;
    static const struct selection_options all = {0};
    struct buf bytes = {0};
    char path[32];
    int from = open_fixture(trace_fixtures[0]);
    read_file(from, &bytes);
    close(from);
    for (int cut = 0; cut < 2; cut++) {
        struct trace loaded, read;
        struct selection s;
        struct steps steps = {0};
        struct err e = {0};
        const struct memory_observer to = {.ctx = &steps, .op = keep};
        int fd = memory_file(bytes.data, bytes.len);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        assert_int_equal(trace_init(&loaded, NULL, &e), 0);
        assert_int_equal(trace_init(&read, NULL, &e), 0);
        assert_int_equal(trace_load(&loaded, path, NULL, NULL, &e), 0);
        load_before(&read, &loaded, path);
        assert_true(trace_replay(&read, fd, path, true));
        assert_int_equal(selection_init(&s, &read, &all, &e), 0);
        if (cut)
            assert_int_equal(ftruncate(fd, (off_t)bytes.len / 4), 0);
        else
            map_release(&read.memory.pool_numbers);
        assert_int_equal(selection_sweep(&s, &to, &e), -1);
        assert_int_equal(e.code, ERR_INPUT);
        for (unsigned i = 0; i < RH_POOLS; i++)
            vec_release(&steps.of[i]);
        selection_release(&s);
        trace_release(&loaded);
        trace_release(&read);
    }
    buf_release(&bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_histories),
        cmocka_unit_test(test_pools_of_one_name_are_loaded),
        cmocka_unit_test(test_one_pool),
        cmocka_unit_test(test_disorder_beside_a_pool_is_loaded),
        cmocka_unit_test(test_fixtures),
        cmocka_unit_test(test_a_file_that_changed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
