/*
 * accounting against a brute-force oracle on random histories: several pools and threads, many
 * steps in one nanosecond, live observation and sweep, merged pools, groups and threads as keys.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/figures/accounting.h"
#include "memory_steps.h"
#include "trace/store/store.h"

#define POOLS 3
#define THREADS 4
#define STACKS 200
#define STEPS 1500

struct block {
    uint32_t pool, stack;
    uint16_t thread, free_thread;
    uint64_t size, ptr;
    int64_t start, end; /* end = INT64_MAX while live */
};

struct history {
    struct trace trace;
    struct block blocks[STEPS];
    size_t n;
    uint64_t seed;
};

static uint64_t rnd(struct history *h, uint64_t below)
{
    h->seed = h->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (h->seed >> 33) % below;
}

static void step_alloc(struct history *h, int64_t now)
{
    struct err e = {0};
    struct block *b = &h->blocks[h->n];
    *b = (struct block){.pool = (uint32_t)rnd(h, POOLS),
                        .stack = (uint32_t)rnd(h, rnd(h, 2) ? 4 : STACKS),
                        .thread = (uint16_t)rnd(h, THREADS),
                        .size = rnd(h, 8) ? 1 + rnd(h, 64) : 0,
                        .ptr = 0x1000 + h->n * 0x100,
                        .start = now,
                        .end = INT64_MAX};
    bool fault;
    struct memory_place at = {now, b->thread, b->stack};
    assert_int_equal(alloc_in(&h->trace.memory, b->pool, b->ptr, b->size, at, &fault, &e), 0);
    assert_false(fault);
    h->n++;
}

static void step_free(struct history *h, int64_t now)
{
    struct err e = {0};
    /* Young blocks go first, so that temporaries and lives of no length occur. */
    size_t back = 1 + (size_t)rnd(h, rnd(h, 2) ? 2 : 40);
    struct block *b = back <= h->n ? &h->blocks[h->n - back] : NULL;
    if (!b || b->end != INT64_MAX)
        return;
    b->end = now;
    b->free_thread = rnd(h, 4) ? b->thread : (uint16_t)rnd(h, THREADS);
    bool found;
    struct memory_place at = {now, b->free_thread, 0};
    assert_int_equal(free_in(&h->trace.memory, b->pool, b->ptr, at, true, &found, &e), 0);
    assert_true(found);
}

/* Makes a history; `live` sees it as it happens. */
static void history_make(struct history *h, uint64_t seed, struct accounting *live)
{
    struct err e = {0};
    *h = (struct history){.seed = seed};
    assert_int_equal(trace_init(&h->trace, NULL, &e), 0);
    for (uint32_t i = 0; i < POOLS; i++) {
        uint32_t number;
        assert_int_equal(memory_pool(&h->trace.memory, UINT64_C(0x10) * i, &number, &e), 0);
        assert_int_equal(number, i);
    }
    if (live)
        h->trace.memory.observer = accounting_observer(live);
    int64_t now = -50; /* a client's first times can lie before its start */
    for (size_t i = 0; i < STEPS; i++) {
        if (rnd(h, 3) == 0)
            now += 1 + (int64_t)rnd(h, 3);
        if (now == -1) /* the file's mark of a block that is still live */
            now = 0;
        if (rnd(h, 9) < 5)
            step_alloc(h, now);
        else
            step_free(h, now);
    }
}

/* How blocks are counted: the pool and key of each. */
struct view_of_history {
    const struct accounting_options *options;
    uint32_t pool;
    bool one_key;
    uint32_t key;
};

static bool counted(const struct view_of_history *v, const struct block *b)
{
    const struct accounting_options *o = v->options;
    uint32_t pool = o->pools ? o->pools[b->pool] : b->pool;
    uint32_t key = o->by_thread ? b->thread : b->stack;
    if (o->groups && !o->by_thread)
        key = b->stack < o->group_count ? o->groups[b->stack] : 0;
    return pool == v->pool && (!v->one_key || key == v->key);
}

/* The blocks of one view, so that a look at each nanosecond costs only these. */
struct chosen {
    const struct block *at[STEPS];
    size_t n;
};

static void choose(struct chosen *c, const struct history *h, const struct view_of_history *v)
{
    c->n = 0;
    for (size_t i = 0; i < h->n; i++) {
        if (counted(v, &h->blocks[i]))
            c->at[c->n++] = &h->blocks[i];
    }
}

/* Usage of the blocks at the end of a nanosecond. */
static void usage_at(const struct chosen *of, int64_t time, uint64_t *bytes, uint64_t *count)
{
    *bytes = *count = 0;
    for (size_t i = 0; i < of->n; i++) {
        const struct block *b = of->at[i];
        if (b->start <= time && b->end > time) {
            *bytes += b->size;
            (*count)++;
        }
    }
}

/* As the header says, read literally, among the blocks of a pool. */
static bool is_temporary(const struct chosen *pool, const struct block *b)
{
    if (b->end == INT64_MAX || b->free_thread != b->thread)
        return false;
    for (size_t i = 0; i < pool->n; i++) {
        const struct block *o = pool->at[i];
        if (o == b)
            continue;
        if (o->thread == b->thread && o->start > b->start && o->start < b->end)
            return false;
        if (o->end != INT64_MAX && o->free_thread == b->thread && o->end > b->start &&
            o->end < b->end)
            return false;
    }
    return true;
}

struct peak {
    uint64_t bytes, count;
    int64_t time;
};

static struct peak find_peak(const struct history *h, const struct chosen *of)
{
    struct peak p = {.time = -1};
    int64_t first = h->blocks[0].start;
    int64_t last = h->blocks[h->n - 1].start;
    for (size_t i = 0; i < h->n; i++) {
        if (h->blocks[i].end != INT64_MAX && h->blocks[i].end > last)
            last = h->blocks[i].end;
    }
    for (int64_t t = first; t <= last; t++) {
        uint64_t bytes;
        uint64_t count;
        usage_at(of, t, &bytes, &count);
        if (bytes > p.bytes) {
            p.bytes = bytes;
            p.time = t;
        }
        if (count > p.count)
            p.count = count;
    }
    return p;
}

static void expect_pool(const struct chosen *pool, const struct peak *peak,
                        const struct pool_figures *got)
{
    struct pool_figures want = {0};
    for (size_t i = 0; i < pool->n; i++) {
        const struct block *b = pool->at[i];
        want.allocations++;
        want.total_bytes += b->size;
        want.frees += b->end != INT64_MAX;
        want.live += b->end == INT64_MAX;
        want.live_bytes += b->end == INT64_MAX ? b->size : 0;
        want.temporary += is_temporary(pool, b);
    }
    assert_int_equal(got->allocations, want.allocations);
    assert_int_equal(got->frees, want.frees);
    assert_int_equal(got->live, want.live);
    assert_int_equal(got->live_bytes, want.live_bytes);
    assert_int_equal(got->total_bytes, want.total_bytes);
    assert_int_equal(got->temporary, want.temporary);
    assert_int_equal(got->peak_bytes, peak->bytes);
    assert_int_equal(got->peak_time, peak->time);
    assert_int_equal(got->peak_live, peak->count);
}

/* `own_peak` is that of the key's blocks, `peak` that of their pool. */
static void expect_counter(const struct chosen *key, const struct peak *own_peak,
                           const struct chosen *pool, const struct peak *peak,
                           const struct counter *got)
{
    struct counter want = {.first_time = INT64_MAX, .last_time = INT64_MIN};
    for (size_t i = 0; i < key->n; i++) {
        const struct block *b = key->at[i];
        bool is_live = b->end == INT64_MAX;
        want.count++;
        want.bytes += b->size;
        want.live_count += is_live;
        want.live_bytes += is_live ? b->size : 0;
        bool temporary = is_temporary(pool, b);
        want.temporary += temporary;
        want.temporary_bytes += temporary ? b->size : 0;
        want.largest = b->size > want.largest ? b->size : want.largest;
        want.first_time = b->start < want.first_time ? b->start : want.first_time;
        int64_t last = is_live ? b->start : b->end;
        want.last_time = last > want.last_time ? last : want.last_time;
    }
    if (peak->bytes)
        usage_at(key, peak->time, &want.at_peak_bytes, &want.at_peak_count);
    assert_int_equal(got->count, want.count);
    assert_int_equal(got->bytes, want.bytes);
    assert_int_equal(got->live_count, want.live_count);
    assert_int_equal(got->live_bytes, want.live_bytes);
    assert_int_equal(got->temporary, want.temporary);
    assert_int_equal(got->temporary_bytes, want.temporary_bytes);
    assert_int_equal(got->largest, want.largest);
    assert_int_equal(got->first_time, want.first_time);
    assert_int_equal(got->last_time, want.last_time);
    assert_int_equal(got->peak_bytes, own_peak->bytes);
    assert_int_equal(got->at_peak_bytes, want.at_peak_bytes);
    assert_int_equal(got->at_peak_count, want.at_peak_count);
}

/* Compares everything in `a` with the oracle. */
static void expect_history(const struct history *h, const struct accounting *a)
{
    uint64_t total = 0;
    for (uint32_t number = 0; number < POOLS; number++) {
        struct view_of_history v = {.options = &a->options, .pool = number};
        struct chosen pool, key;
        choose(&pool, h, &v);
        const struct peak peak = find_peak(h, &pool);
        struct pool_figures figures;
        accounting_pool(a, number, &figures);
        expect_pool(&pool, &peak, &figures);
        uint64_t iter = 0;
        uint32_t before = 0;
        struct counter c;
        for (v.one_key = true; accounting_next(a, number, &iter, &v.key, &c); before = v.key) {
            assert_true(total == 0 || before == 0 || v.key > before);
            choose(&key, h, &v);
            const struct peak own = find_peak(h, &key);
            expect_counter(&key, &own, &pool, &peak, &c);
            total += c.count;
        }
    }
    assert_int_equal(total, h->n);
}

static void test_live_and_sweep(void **state)
{
    (void)state;
    struct history *h = malloc(sizeof *h);
    assert_non_null(h);
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct err e = {0};
        struct accounting live;
        struct accounting swept;
        accounting_init(&live, NULL);
        accounting_init(&swept, NULL);
        history_make(h, seed, &live);
        expect_history(h, &live);
        struct memory_observer to = accounting_observer(&swept);
        assert_int_equal(memory_sweep(&h->trace.memory, -1, &to, &e), 0);
        expect_history(h, &swept);
        accounting_release(&live);
        accounting_release(&swept);
        trace_release(&h->trace);
    }
    free(h);
}

static void sweep_with(struct history *h, const struct accounting_options *options)
{
    struct err e = {0};
    struct accounting a;
    accounting_init(&a, options);
    struct memory_observer to = accounting_observer(&a);
    assert_int_equal(memory_sweep(&h->trace.memory, -1, &to, &e), 0);
    expect_history(h, &a);
    accounting_release(&a);
}

static void test_groups_threads_and_merged_pools(void **state)
{
    (void)state;
    struct history *h = malloc(sizeof *h);
    assert_non_null(h);
    uint32_t groups[STACKS / 2];
    for (uint32_t i = 0; i < STACKS / 2; i++)
        groups[i] = i * 7 % 13;
    static const uint32_t pools[POOLS] = {0, 1, 0};
    for (uint64_t seed = 100; seed < 106; seed++) {
        history_make(h, seed, NULL);
        sweep_with(h, &(struct accounting_options){.groups = groups, .group_count = STACKS / 2});
        sweep_with(h, &(struct accounting_options){.by_thread = true});
        sweep_with(h, &(struct accounting_options){.pools = pools,
                                                   .pool_count = POOLS,
                                                   .groups = groups,
                                                   .group_count = STACKS / 2});
        trace_release(&h->trace);
    }
    free(h);
}

static struct memory_op make_op(enum memory_op_kind kind, int64_t time, uint64_t index,
                                uint64_t size, int64_t start)
{
    return (struct memory_op){
        .kind = kind, .time = time, .block = {.index = index, .size = size, .time = start}};
}

static void take(struct accounting *a, struct memory_op op)
{
    struct err e = {0};
    assert_int_equal(accounting_op(a, &op, &e), 0);
}

/* The counter of key 0 in pool 0, which has no other key. */
static bool only_counter(const struct accounting *a, struct counter *out)
{
    uint64_t iter = 0;
    uint32_t key = UINT32_MAX;
    return accounting_next(a, 0, &iter, &key, out) && key == 0;
}

static void test_peak_is_the_end_of_a_nanosecond(void **state)
{
    (void)state;
    struct accounting a;
    accounting_init(&a, NULL);
    struct pool_figures f;
    struct counter c;
    accounting_pool(&a, 0, &f);
    assert_int_equal(f.allocations, 0);
    assert_int_equal(f.peak_time, -1);
    assert_false(only_counter(&a, &c));

    take(&a, make_op(MEMORY_ALLOC, 10, 0, 100, 10));
    /* 300 bytes for an instant within nanosecond 20, 200 at its end. */
    take(&a, make_op(MEMORY_ALLOC, 20, 1, 200, 20));
    take(&a, make_op(MEMORY_FREE, 20, 0, 100, 10));
    accounting_pool(&a, 0, &f);
    assert_int_equal(f.peak_bytes, 200);
    assert_int_equal(f.peak_time, 20);
    /* Reading in the middle of a nanosecond leaves no trace. */
    take(&a, make_op(MEMORY_FREE, 20, 1, 200, 20));
    accounting_pool(&a, 0, &f);
    assert_int_equal(f.peak_bytes, 100);
    assert_int_equal(f.peak_time, 10);
    /* The same height again is not a new peak. */
    take(&a, make_op(MEMORY_ALLOC, 30, 2, 100, 30));
    accounting_pool(&a, 0, &f);
    assert_int_equal(f.peak_time, 10);
    assert_true(only_counter(&a, &c));
    assert_int_equal(c.at_peak_bytes, 100);
    assert_int_equal(c.peak_bytes, 100);
    accounting_release(&a);
}

static void test_time_running_backwards(void **state)
{
    (void)state;
    struct accounting a;
    accounting_init(&a, NULL);
    take(&a, make_op(MEMORY_ALLOC, 100, 0, 10, 100));
    take(&a, make_op(MEMORY_ALLOC, 50, 1, 10, 50));
    struct pool_figures f;
    accounting_pool(&a, 0, &f);
    assert_int_equal(f.peak_bytes, 20);
    assert_int_equal(f.peak_time, 100);
    accounting_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_live_and_sweep),
        cmocka_unit_test(test_groups_threads_and_merged_pools),
        cmocka_unit_test(test_peak_is_the_end_of_a_nanosecond),
        cmocka_unit_test(test_time_running_backwards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
