/* What sites do with their blocks: made beforehand, so that every figure is known. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analysis/questions/histograms.h"
#include "analysis/questions/patterns.h"
#include "test/unit/analysis_fixture.h"

#define BASE UINT64_C(0x7f0000000000)

static const struct pattern_row *row_of(const struct patterns *p, const char *function)
{
    for (size_t i = 0; i < p->rows.len; i++) {
        if (view_equal(p->rows.at[i].frame.function, view_of(function)))
            return &p->rows.at[i];
    }
    fail_msg("no row for %s", function);
    return NULL;
}

static void build(struct fixture *f, struct selection *s, struct patterns *p)
{
    static const struct selection_options all = {0};
    assert_int_equal(selection_init(s, &f->trace, &all, &f->e), 0);
    assert_int_equal(patterns_build(p, s, NULL, &f->e), 0);
}

/* Vectors of 16 to 16 << steps bytes; others of the same site grow in between. */
static void test_vectors(void **state)
{
    (void)state;
    struct fixture f;
    struct selection s;
    struct patterns p;
    enum { VECTORS = 20, STEPS = 6 };
    uint64_t held[VECTORS];
    uint64_t next = BASE;
    fixture_init(&f);
    uint32_t grow = fixture_stack(&f, 0x1000, "grow", "a.c", 1);
    uint32_t drop = fixture_stack(&f, 0x2000, "drop", "a.c", 2);
    for (unsigned step = 0; step <= STEPS; step++) {
        for (unsigned i = 0; i < VECTORS; i++) {
            next += 0x10000;
            fixture_alloc(&f, 0, next, UINT64_C(16) << step, grow);
            if (step)
                fixture_free(&f, 0, held[i], drop);
            held[i] = next;
        }
    }
    build(&f, &s, &p);
    const struct pattern_row *r = row_of(&p, "grow");
    assert_true(pattern_grows(r));
    assert_int_equal(r->chains, VECTORS);
    assert_int_equal(r->grown, VECTORS * STEPS);
    assert_int_equal(r->longest, STEPS);
    assert_int_equal(r->copied, VECTORS * 16 * ((1 << STEPS) - 1));
    assert_int_equal(r->largest, 16 << STEPS);
    assert_int_equal(r->down, 0);
    patterns_release(&p);
    selection_release(&s);

    /* shrink_to_fit */
    for (unsigned i = 0; i < VECTORS; i++) {
        next += 0x10000;
        fixture_alloc(&f, 0, next, 1000, grow);
        fixture_free(&f, 0, held[i], drop);
    }
    build(&f, &s, &p);
    r = row_of(&p, "grow");
    assert_int_equal(r->down, VECTORS);
    assert_int_equal(r->given_back, VECTORS * (1024 - 1000));
    assert_true(pattern_grows(r));
    patterns_release(&p);
    selection_release(&s);
    fixture_release(&f);
}

/* realloc, reported as a free and an allocation by one line; in place it copies nothing. */
static void test_reallocs(void **state)
{
    (void)state;
    struct fixture f;
    struct selection s;
    struct patterns p;
    fixture_init(&f);
    uint32_t first = fixture_stack(&f, 0x1000, "first", "a.c", 1);
    uint32_t again = fixture_stack(&f, 0x2000, "again", "a.c", 2);
    uint32_t loop = fixture_stack(&f, 0x3000, "loop", "a.c", 3);
    uint32_t end = fixture_stack(&f, 0x4000, "end", "a.c", 4);
    fixture_alloc(&f, 0, BASE, 100, first);
    fixture_free(&f, 0, BASE, again);
    fixture_alloc(&f, 0, BASE, 200, again);
    fixture_free(&f, 0, BASE, again);
    fixture_alloc(&f, 0, BASE + 4096, 400, again);
    fixture_free(&f, 0, BASE + 4096, end);
    /* A loop with a buffer, larger each time: freed elsewhere, so it is none. */
    for (uint64_t i = 1; i <= 10; i++) {
        fixture_alloc(&f, 0, BASE, 100 * i, loop);
        fixture_free(&f, 0, BASE, end);
    }
    build(&f, &s, &p);
    const struct pattern_row *r = row_of(&p, "again");
    assert_true(pattern_grows(r));
    assert_int_equal(r->grown, 2);
    assert_int_equal(r->chains, 1);
    assert_int_equal(r->longest, 2);
    assert_int_equal(r->copied, 200);
    assert_false(pattern_grows(row_of(&p, "first")));
    r = row_of(&p, "loop");
    assert_int_equal(r->grown, 0);
    assert_int_equal(r->temporary, 10);
    assert_int_equal(r->longest_run, 10);
    patterns_release(&p);
    selection_release(&s);
    fixture_release(&f);
}

/* Blocks that replace each other by chance go up and down alike. */
static void test_chance_is_no_growth(void **state)
{
    (void)state;
    struct fixture f;
    struct selection s;
    struct patterns p;
    uint64_t live[50] = {0};
    uint64_t next = BASE;
    uint64_t seed = 7;
    fixture_init(&f);
    uint32_t cache = fixture_stack(&f, 0x1000, "cache", "a.c", 1);
    for (int i = 0; i < 5000; i++) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
        uint64_t *slot = &live[(seed >> 33) % 50];
        next += 0x10000;
        fixture_alloc(&f, 0, next, 16 + (seed >> 52), cache);
        if (*slot)
            fixture_free(&f, 0, *slot, 0);
        *slot = next;
    }
    build(&f, &s, &p);
    const struct pattern_row *r = row_of(&p, "cache");
    assert_true(r->grown > 1000 && r->down > 1000);
    assert_false(pattern_grows(r));
    patterns_release(&p);
    selection_release(&s);
    fixture_release(&f);
}

static void test_sizes_and_loops(void **state)
{
    (void)state;
    struct fixture f;
    struct selection s;
    struct patterns p;
    fixture_init(&f);
    uint32_t large = fixture_stack(&f, 0x1000, "large", "a.c", 1);
    uint32_t small = fixture_stack(&f, 0x2000, "small", "a.c", 2);
    uint32_t other = fixture_stack(&f, 0x3000, "other", "a.c", 3);
    uint32_t temp = fixture_stack(&f, 0x4000, "temp", "a.c", 4);
    for (uint64_t i = 0; i < 4; i++) {
        fixture_alloc(&f, 0, BASE + i * 0x100000, PATTERN_LARGE, large);
        fixture_alloc(&f, 0, BASE + 0x1000000 + i * 0x100, 10, small);
        fixture_alloc(&f, 0, BASE + 0x2000000 + i * 0x100000, PATTERN_LARGE + i, other);
    }
    for (uint64_t i = 0; i < 4; i++)
        fixture_free(&f, 0, BASE + i * 0x100000, 0);
    for (unsigned run = 1; run <= 3; run++) {
        for (unsigned i = 0; i < run; i++) {
            fixture_alloc(&f, 0, BASE + 0x9000000, 64, temp);
            fixture_free(&f, 0, BASE + 0x9000000, 0);
        }
        fixture_alloc(&f, 0, BASE + 0x1000000 + (4 + run) * 0x100, 10, small);
    }
    build(&f, &s, &p);
    const struct pattern_row *r = row_of(&p, "large");
    assert_true(pattern_never_grew(r));
    assert_int_equal(r->only_size, PATTERN_LARGE);
    assert_int_equal(r->peak_bytes, 4 * PATTERN_LARGE);
    assert_int_equal(r->live_bytes, 0);
    assert_int_equal(r->peak_waste, 4 * (glibc_chunk(PATTERN_LARGE) - PATTERN_LARGE));
    r = row_of(&p, "small");
    assert_false(pattern_never_grew(r));
    assert_int_equal(r->only_size, 10);
    assert_int_equal(r->waste, 7 * 22);
    assert_int_equal(r->temporary, 0);
    r = row_of(&p, "other");
    assert_int_equal(r->only_size, 0);
    r = row_of(&p, "temp");
    assert_int_equal(r->temporary, 6);
    assert_int_equal(r->temporary_bytes, 6 * 64);
    assert_int_equal(r->longest_run, 3);
    patterns_sort(&p, PATTERN_BY_TEMPORARY);
    assert_ptr_equal(row_of(&p, "temp"), &p.rows.at[0]);
    patterns_release(&p);
    selection_release(&s);
    fixture_release(&f);
}

/* Two blocks at a time, freed in the order of their allocation, and longer lives of another site.
 */
static void test_short_lives(void **state)
{
    (void)state;
    struct fixture f;
    struct selection s;
    struct patterns p;
    enum { PAIRS = 30, LONG = 100 };
    fixture_init(&f);
    uint32_t one = fixture_stack(&f, 0x1000, "one", "a.c", 1);
    uint32_t two = fixture_stack(&f, 0x2000, "two", "a.c", 2);
    uint32_t lasts = fixture_stack(&f, 0x3000, "lasts", "a.c", 3);
    uint32_t drop = fixture_stack(&f, 0x4000, "drop", "a.c", 4);
    for (uint64_t i = 0; i < PAIRS; i++) {
        fixture_alloc(&f, 0, BASE, 100, one);
        fixture_alloc(&f, 0, BASE + 4096, 50, two);
        fixture_free(&f, 0, BASE, drop);
        fixture_free(&f, 0, BASE + 4096, drop);
    }
    for (uint64_t i = 0; i <= LONG; i++)
        fixture_alloc(&f, 0, BASE + 4096 * i, 10, lasts);
    for (uint64_t i = 0; i <= LONG; i++)
        fixture_free(&f, 0, BASE + 4096 * i, drop);
    build(&f, &s, &p);
    const struct pattern_row *r = row_of(&p, "one");
    assert_int_equal(r->brief, PAIRS);
    assert_int_equal(r->brief_bytes, 100 * PAIRS);
    assert_int_equal(r->brief_allocations, PAIRS);
    assert_true(r->brief_time >= 2 * PAIRS);
    assert_true(pattern_is_brief(r));
    /* Nothing was allocated meanwhile. */
    r = row_of(&p, "two");
    assert_int_equal(r->brief, PAIRS);
    assert_int_equal(r->brief_allocations, 0);
    /* The first block outlived LONG others. */
    r = row_of(&p, "lasts");
    assert_int_equal(r->brief, LONG);
    assert_int_equal(r->brief_allocations, LONG * (LONG - 1) / 2);
    patterns_release(&p);
    selection_release(&s);
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_reallocs),
        cmocka_unit_test(test_chance_is_no_growth),
        cmocka_unit_test(test_sizes_and_loops),
        cmocka_unit_test(test_short_lives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
