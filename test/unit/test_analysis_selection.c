/* The steps that a selection passes to its observers, held against a list that is sorted slowly. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "analysis/figures/selection.h"

#define POOLS 2u
#define EVENTS 12000u /* of each pool: together enough for a second thread */

static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

struct history {
    struct trace trace;
    struct rec_memory_event events[POOLS][EVENTS];
};

/*
 * `coarse`: many steps in one nanosecond, thousands of frees in some, and times that run backwards
 * now and then.
 */
static void make(struct history *h, uint64_t seed, bool coarse)
{
    struct err e = {0};
    assert_int_equal(trace_init(&h->trace, NULL, &e), 0);
    for (uint32_t pool = 0; pool < POOLS; pool++) {
        uint32_t number;
        int64_t now = 1;
        const char *name = pool ? "other" : "one";
        uint32_t text = strings_intern(&h->trace.strings, view_of(name), &e);
        assert_int_equal(memory_pool(&h->trace.memory, 16 * (pool + 1), &number, &e), 0);
        assert_int_equal(strings_bind(&h->trace.strings, 16 * (pool + 1), text, &e), 0);
        for (uint32_t i = 0; i < EVENTS; i++) {
            struct rec_memory_event *ev = &h->events[pool][i];
            now += (int64_t)next_random(&seed) % (coarse ? 2 : 40);
            uint64_t dice = next_random(&seed) % 8;
            int64_t free = dice == 0   ? NEVER_FREED
                           : dice == 1 ? now
                           : dice < 4  ? (now / 4096 + 1) * 4096
                                       : now + (int64_t)(next_random(&seed) % 3000);
            bool back = coarse && next_random(&seed) % 500 == 0 && now > 20;
            *ev = (struct rec_memory_event){.ptr = i + 1,
                                            .size = next_random(&seed) % 100,
                                            .time_alloc = back ? now - 9 : now,
                                            .time_free = free,
                                            .callstack_free = (uint32_t)i,
                                            .thread_alloc = (uint16_t)(next_random(&seed) % 4),
                                            .thread_free = (uint16_t)(next_random(&seed) % 4)};
            assert_int_equal(memory_append(&h->trace.memory, number, ev, &e), 0);
        }
        if (now > h->trace.facts.last_time)
            h->trace.facts.last_time = now;
    }
}

/* The steps of each pool, in order. */
struct steps {
    VEC(struct memory_op) of[POOLS];
};

static int keep(void *ctx, const struct memory_op *op, struct err *e)
{
    struct steps *s = ctx;
    (void)e;
    return vec_push(&s->of[op->pool], *op) ? 0 : -1;
}

static int keep_batch(void *ctx, const struct memory_op *ops, size_t n, struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        if (keep(ctx, &ops[i], e) != 0)
            return -1;
    }
    return 0;
}

static void release_steps(struct steps *s)
{
    for (unsigned i = 0; i < POOLS; i++)
        vec_release(&s->of[i]);
}

static void expect_step(const struct steps *s, uint32_t pool, size_t *at, enum memory_op_kind kind,
                        int64_t time, const struct rec_memory_event *ev)
{
    assert_true(*at < s->of[pool].len);
    const struct memory_op *op = &s->of[pool].at[(*at)++];
    bool is_free = kind == MEMORY_FREE;
    assert_int_equal(op->kind, kind);
    assert_true(op->time == time);
    assert_true(op->block.ptr == ev->ptr && op->block.size == ev->size);
    assert_true(op->block.index == ev->ptr - 1);
    assert_int_equal(op->thread, is_free ? ev->thread_free : ev->thread_alloc);
    assert_int_equal(op->callstack, is_free ? ev->callstack_free : ev->callstack_alloc);
    assert_int_equal(op->block.thread, ev->thread_alloc);
}

/* A waiting free: its time, and the number of its event. */
struct waiting {
    int64_t time;
    uint32_t event;
};

/*
 * Frees in order of time, then of allocation; before each allocation those up to its time. Time
 * never runs backwards.
 */
static void expect_pool(const struct history *h, const struct steps *s, uint32_t pool)
{
    VEC(struct waiting) list = {0};
    size_t at = 0;
    int64_t now = INT64_MIN;
    for (uint32_t i = 0; i <= EVENTS; i++) {
        const struct rec_memory_event *ev = i < EVENTS ? &h->events[pool][i] : NULL;
        size_t due = 0;
        while (due < list.len && (!ev || list.at[due].time <= ev->time_alloc))
            due++;
        for (size_t k = 0; k < due; k++)
            expect_step(s, pool, &at, MEMORY_FREE, list.at[k].time,
                        &h->events[pool][list.at[k].event]);
        if (list.len)
            memmove(list.at, list.at + due, (list.len - due) * sizeof *list.at);
        list.len -= due;
        if (!ev)
            break;
        now = ev->time_alloc > now ? ev->time_alloc : now;
        expect_step(s, pool, &at, MEMORY_ALLOC, now, ev);
        if (ev->time_free == NEVER_FREED)
            continue;
        struct waiting w = {ev->time_free > now ? ev->time_free : now, i};
        assert_true(vec_push(&list, w));
        size_t k = list.len - 1;
        for (; k > 0 && list.at[k - 1].time > w.time; k--)
            list.at[k] = list.at[k - 1];
        list.at[k] = w;
    }
    assert_int_equal(at, s->of[pool].len);
    vec_release(&list);
}

static void expect_same(const struct steps *a, const struct steps *b)
{
    for (unsigned i = 0; i < POOLS; i++) {
        assert_int_equal(a->of[i].len, b->of[i].len);
        for (size_t k = 0; k < a->of[i].len; k++) {
            const struct memory_op *x = &a->of[i].at[k];
            const struct memory_op *y = &b->of[i].at[k];
            assert_true(x->block.ptr == y->block.ptr && x->kind == y->kind && x->time == y->time &&
                        x->temporary == y->temporary && x->freed == y->freed);
        }
    }
}

/* Each step by itself, in batches, of several observers, beside the sweep: all get the same. */
static void test_all_observers_get_the_same(void **state)
{
    (void)state;
    struct history *h = malloc(sizeof *h);
    assert_non_null(h);
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct err e = {0};
        struct selection s;
        struct steps alone = {0}, one = {0}, two = {0}, three = {0};
        const struct memory_observer single = {.ctx = &alone, .op = keep};
        const struct memory_observer set[] = {
            {.ctx = &one, .op = keep, .beside = true},
            {.ctx = &two, .batch = keep_batch, .beside = true},
            {.ctx = &three, .batch = keep_batch, .beside = seed % 3 != 0}};
        const struct selection_options every = {0};
        memset(h, 0, sizeof *h);
        make(h, seed, seed % 2);
        assert_int_equal(selection_init(&s, &h->trace, &every, &e), 0);
        assert_int_equal(selection_sweep(&s, &single, &e), 0);
        for (uint32_t i = 0; i < POOLS; i++)
            expect_pool(h, &alone, i);
        assert_int_equal(selection_sweep_all(&s, set, 3, &e), 0);
        expect_same(&one, &alone);
        expect_same(&two, &alone);
        expect_same(&three, &alone);
        selection_release(&s);
        release_steps(&alone);
        release_steps(&one);
        release_steps(&two);
        release_steps(&three);
        trace_release(&h->trace);
    }
    free(h);
}

static int fail_late(void *ctx, const struct memory_op *op, struct err *e)
{
    unsigned *left = ctx;
    (void)op;
    return (*left)-- ? 0 : err_set(e, ERR_CHECK, "enough");
}

static void test_an_error_ends_the_sweep(void **state)
{
    (void)state;
    struct history *h = calloc(1, sizeof *h);
    assert_non_null(h);
    make(h, 1, true);
    for (unsigned i = 0; i < 6; i++) {
        struct err e = {0};
        struct selection s;
        unsigned left = i / 2 * 10000;
        const struct memory_observer to = {.ctx = &left, .op = fail_late, .beside = i % 2};
        const struct selection_options every = {0};
        assert_int_equal(selection_init(&s, &h->trace, &every, &e), 0);
        assert_int_equal(selection_sweep(&s, &to, &e), -1);
        assert_int_equal(e.code, ERR_CHECK);
        selection_release(&s);
    }
    trace_release(&h->trace);
    free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_observers_get_the_same),
        cmocka_unit_test(test_an_error_ends_the_sweep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
