/* A bound on memory: what is beyond it goes to the spool, and is all there when it is read again.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "server/capture/memory_limit.h"

#define EVENTS ((uint64_t)1 << 20)

static void must(int status, const struct err *e)
{
    if (status != 0)
        fail_msg("%s", e->text);
}

static void fill(struct trace *t)
{
    struct err e = {0};
    uint32_t pool;
    must(memory_pool(&t->memory, 5, &pool, &e), &e);
    for (uint64_t i = 0; i < EVENTS; i++) {
        const struct memory_event_in ev = {.ptr = i * 48,
                                           .size = i * 0x9e3779b97f4a7c15u >> 30,
                                           .time_alloc = (int64_t)i * 3,
                                           .time_free = -1,
                                           .callstack_alloc = (uint32_t)(i * 7919 % 5000)};
        must(memory_append(&t->memory, pool, &ev, &e), &e);
    }
}

static void check(struct trace *t)
{
    struct column_reader r;
    struct err e = {0};
    uint64_t i = 0;
    size_t n;
    column_reader_init(&r, &t->memory.pools.at[t->memory.pools.len - 1]->allocs);
    for (const struct memory_alloc *a; (a = column_reader_next(&r, &n, &e));) {
        for (size_t k = 0; k < n; k++, i++)
            assert_int_equal(a[k].ptr, i * 48);
    }
    assert_int_equal(e.code, ERR_NONE);
    assert_int_equal(i, EVENTS);
    column_reader_release(&r);
}

static void test_keeping(void **state)
{
    (void)state;
    struct trace t;
    struct err e = {0};
    struct memory_limit l = memory_limit_of((uint64_t)1 << 40, (size_t)256 << 20);
    const struct trace_options options = {.resident_budget = l.budget};
    assert_int_equal(l.budget, (size_t)256 << 20);
    must(trace_init(&t, &options, &e), &e);
    fill(&t);
    assert_int_equal(t.spool.end, 0); /* nothing is on disk yet */
    assert_int_equal(memory_limit_keep(&l, &t, 0, &e), 0);
    assert_int_equal(l.shrunken, 0);
    /* Something large is about to come: all goes that can, and that is not enough. */
    assert_int_equal(memory_limit_keep(&l, &t, (uint64_t)1 << 40, &e), 2);
    assert_int_equal(l.budget, MEMORY_BUDGET_LEAST);
    assert_true(t.spool.end > 0);
    assert_true(t.spool.raw.bytes + t.spool.packed.bytes <= MEMORY_BUDGET_LEAST);
    check(&t);
    fill(&t);
    assert_true(t.spool.raw.bytes + t.spool.packed.bytes <= MEMORY_BUDGET_LEAST);
    trace_release(&t);
}

static void test_no_more_than_needed(void **state)
{
    (void)state;
    struct trace t;
    struct err e = {0};
    const struct trace_options options = {.resident_budget = (size_t)256 << 20};
    must(trace_init(&t, &options, &e), &e);
    fill(&t);
    uint64_t used = memory_anonymous();
    assert_true(used > ((uint64_t)10 << 20));
    /* Just beyond three quarters of the bound. */
    struct memory_limit l = {.bytes = used * 4 / 3 - 4096, .budget = (size_t)256 << 20};
    assert_int_equal(memory_limit_keep(&l, &t, 0, &e), 0);
    assert_true(l.shrunken > 0);
    assert_true(l.budget >= MEMORY_BUDGET_LEAST);
    check(&t);
    trace_release(&t);
}

static void test_bounds(void **state)
{
    (void)state;
    struct trace t;
    struct err e = {0};
    struct memory_limit none = memory_limit_of(0, 1 << 20);
    must(trace_init(&t, NULL, &e), &e);
    assert_int_equal(memory_limit_keep(&none, &t, UINT64_MAX / 2, &e), 0);
    assert_int_equal(memory_limit_of((uint64_t)100 << 20, (size_t)80 << 20).budget,
                     (size_t)25 << 20);
    assert_int_equal(memory_limit_of(1, (size_t)80 << 20).budget, MEMORY_BUDGET_LEAST);
    assert_true(memory_physical() > ((uint64_t)1 << 20));
    trace_release(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keeping),
        cmocka_unit_test(test_no_more_than_needed),
        cmocka_unit_test(test_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
