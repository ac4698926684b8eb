/* Leaks, suppressions and growth: a program with known ones, and random histories. */

#include <math.h>
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

/* ---- suppressions */

static bool matches(const char *pattern, const char *text)
{
    return suppression_matches(pattern, view_of(text));
}

static void test_patterns(void **state)
{
    (void)state;
    assert_true(matches("oo_b", "foo_bar"));
    assert_false(matches("foobar", "foo_bar"));
    assert_true(matches("^foo", "foo_bar"));
    assert_false(matches("^oo", "foo_bar"));
    assert_true(matches("bar$", "foo_bar"));
    assert_false(matches("foo$", "foo_bar"));
    assert_true(matches("^foo_bar$", "foo_bar"));
    assert_true(matches("f*r", "foo_bar"));
    assert_true(matches("^f*o*a*$", "foo_bar"));
    assert_false(matches("f*z", "foo_bar"));
    assert_true(matches("*", "x"));
    assert_true(matches("a*b$", "ab_ab_ab"));
    assert_false(matches("a*b$", "ab_ab_a"));
    assert_true(matches("^a**b$", "ab"));
    assert_false(matches("x", ""));
    assert_true(matches("$", "x"));
}

static void test_files(void **state)
{
    (void)state;
    struct suppressions s = {0};
    struct err e = {0};
    assert_int_equal(
        suppressions_parse(&s, view_of("# a\n\n leak:one \r\nleak:two::three\nleak:x"), "f", &e),
        0);
    assert_int_equal(s.list.len, 3);
    assert_string_equal(s.list.at[0].pattern, "one");
    assert_string_equal(s.list.at[1].pattern, "two::three");
    assert_int_equal(suppressions_parse(&s, view_of("leak:a\nrace:b\n"), "f", &e), -1);
    assert_string_equal(e.text, "f, line 2: not of the form leak:PATTERN");
    assert_int_equal(suppressions_parse(&s, view_of("leak:"), "f", &e), -1);
    suppressions_release(&s);
}

/* ---- statistics */

static void test_statistics(void **state)
{
    (void)state;
    /* A series without equal values: S = 27 - 1, Var = 8 * 7 * 21 / 18. */
    static const uint64_t rising[] = {1, 2, 3, 5, 4, 6, 7, 8};
    assert_true(fabs(mann_kendall(rising, 8) - (26 - 1) / sqrt(8 * 7 * 21 / 18.0)) < 1e-9);
    static const uint64_t falling[] = {8, 7, 6, 5, 4, 3, 2, 1};
    assert_true(fabs(mann_kendall(falling, 8) + (28 - 1) / sqrt(8 * 7 * 21 / 18.0)) < 1e-9);
    /* Equal values take from the variance: 4 and 2 of them. */
    static const uint64_t ties[] = {1, 1, 1, 1, 2, 3, 3};
    double variance = (7 * 6 * 19 - 4 * 3 * 13 - 2 * 1 * 9) / 18.0;
    assert_true(fabs(mann_kendall(ties, 7) - (14 - 1) / sqrt(variance)) < 1e-9);
    static const uint64_t flat[] = {4, 4, 4, 4};
    assert_true(mann_kendall(flat, 4) == 0);
    assert_true(mann_kendall(rising, 2) == 0);
    static const uint64_t line[] = {10, 13, 16, 19};
    assert_true(sen_slope(line, 4) == 3);
    static const uint64_t outlier[] = {10, 13, 1000, 19, 22};
    assert_true(sen_slope(outlier, 5) == 3);
    assert_true(sen_slope(falling, 8) == -1);
    assert_true(sen_slope(line, 1) == 0);
}

/* ---- a program with known leaks */

static const struct leak_row *row_of(const struct leaks *l, const char *function)
{
    for (size_t i = 0; i < l->rows.len; i++) {
        if (view_equal(l->rows.at[i].frame.function, view_of(function)))
            return &l->rows.at[i];
    }
    return NULL;
}

enum { STEPS = 4000 };

/*
 * Six sites: one leaks a little among much that it frees; one allocates at the start; one always
 * holds the same number of blocks, young ones at the end; one swings widely; one jumps once in the
 * middle; one frees everything.
 */
static void make_program(struct fixture *f)
{
    uint64_t held[10] = {0};
    uint64_t next = 0x1000;
    fixture_init(f);
    uint32_t leak = fixture_stack(f, 0x10, "leak", "a.c", 1);
    uint32_t start = fixture_stack(f, 0x20, "start", "a.c", 2);
    uint32_t queue = fixture_stack(f, 0x30, "queue", "a.c", 3);
    uint32_t swing = fixture_stack(f, 0x40, "swing", "a.c", 4);
    uint32_t jump = fixture_stack(f, 0x50, "jump", "a.c", 5);
    uint32_t clean = fixture_stack(f, 0x60, "clean", "a.c", 6);
    for (int i = 0; i < 20; i++)
        fixture_alloc(f, 0, next += 0x100, 1000, start);
    VEC(uint64_t) swinging = {0};
    uint64_t seed = 1;
    for (int i = 0; i < STEPS; i++) {
        fixture_alloc(f, 0, next += 0x100, 16, leak);
        if (i % 40)
            fixture_free(f, 0, next, 0);
        if (held[i % 10])
            fixture_free(f, 0, held[i % 10], 0);
        fixture_alloc(f, 0, held[i % 10] = next += 0x100, 50, queue);
        seed = seed * UINT64_C(6364136223846793005) + 1;
        if (swinging.len && seed >> 63) {
            fixture_free(f, 0, swinging.at[--swinging.len], 0);
        } else if (swinging.len < 30) {
            fixture_alloc(f, 0, next += 0x100, 400, swing);
            assert_true(vec_push(&swinging, next));
        }
        for (int k = 0; i == STEPS / 2 && k < 5; k++)
            fixture_alloc(f, 0, next += 0x100, 5000, jump);
        fixture_alloc(f, 0, next += 0x100, 7, clean);
        fixture_free(f, 0, next, 0);
    }
    vec_release(&swinging);
}

static void test_known_leaks(void **state)
{
    (void)state;
    struct fixture f;
    struct selection s;
    struct leaks l;
    static const struct selection_options all = {0};
    make_program(&f);
    assert_int_equal(selection_init(&s, &f.trace, &all, &f.e), 0);
    assert_int_equal(leaks_build(&l, &s, NULL, NULL, &f.e), 0);
    const struct leak_row *leak = row_of(&l, "leak");
    assert_ptr_equal(leak, &l.rows.at[0]); /* the first line names it */
    assert_int_equal(leak->kind, LEAK_GROWING);
    assert_int_equal(leak->count, STEPS / 40);
    assert_int_equal(leak->bytes, 16 * STEPS / 40);
    assert_int_equal(leak->allocations, STEPS);
    assert_true(leak->z > 8 && leak->p < 1e-10);
    double seconds = (double)(l.end - l.begin) / 1e9;
    assert_true(fabs(leak->rate / ((double)leak->bytes / seconds) - 1) < 0.05);
    assert_int_equal(row_of(&l, "start")->kind, LEAK_AT_START);
    assert_int_equal(row_of(&l, "start")->bytes, 20000);
    assert_int_equal(row_of(&l, "queue")->kind, LEAK_HELD);
    assert_int_equal(row_of(&l, "jump")->kind, LEAK_HELD);
    assert_true(!row_of(&l, "swing") || row_of(&l, "swing")->kind == LEAK_HELD);
    assert_null(row_of(&l, "clean"));
    assert_int_equal(l.count[LEAK_GROWING], STEPS / 40);
    leaks_release(&l);

    struct suppressions suppress = {0};
    assert_int_equal(
        suppressions_parse(&suppress, view_of("leak:^le*k$\nleak:nowhere\n"), "f", &f.e), 0);
    assert_int_equal(leaks_build(&l, &s, NULL, &suppress, &f.e), 0);
    assert_null(row_of(&l, "leak"));
    assert_non_null(row_of(&l, "start"));
    assert_int_equal(l.suppressed_count, STEPS / 40);
    assert_int_equal(suppress.list.at[0].bytes, 16 * STEPS / 40);
    assert_int_equal(suppress.list.at[1].count, 0);
    leaks_release(&l);
    suppressions_release(&suppress);
    selection_release(&s);
    fixture_release(&f);
}

/* A stretch of time has its own leaks: what is freed after it is not seen. */
static void test_random_sums(void **state)
{
    (void)state;
    static struct random_history h;
    static const struct selection_options windows[] = {
        {0}, {.has_range = true, .begin = 100, .end = 400}, {.pool = "twin"}};
    rh_make(&h, 9);
    for (size_t w = 0; w < 3; w++) {
        struct err e = {0};
        struct selection s;
        struct leaks l;
        uint64_t count = 0;
        uint64_t bytes = 0;
        assert_int_equal(selection_init(&s, &h.trace, &windows[w], &e), 0);
        assert_int_equal(leaks_build(&l, &s, NULL, NULL, &e), 0);
        for (size_t i = 0; i < h.n; i++) {
            const struct rh_block *b = &h.blocks[i];
            bool chosen =
                b->start >= s.begin && b->start < s.end && b->end >= s.end && (w != 2 || b->pool);
            count += chosen;
            bytes += chosen ? b->size : 0;
        }
        for (size_t i = 0; i < l.rows.len; i++) {
            count -= l.rows.at[i].count;
            bytes -= l.rows.at[i].bytes;
        }
        assert_int_equal(count, 0);
        assert_int_equal(bytes, 0);
        leaks_release(&l);
        selection_release(&s);
    }
    rh_release(&h);
}

static void test_growth(void **state)
{
    (void)state;
    static struct random_history h;
    static const struct selection_options all = {0};
    static const int64_t times[][2] = {{50, 300}, {-1, 200}, {0, 5}, {300, 1 << 20}};
    rh_make(&h, 4);
    for (size_t w = 0; w < 4; w++) {
        struct err e = {0};
        struct selection s;
        struct growth g;
        uint64_t before = 0;
        uint64_t after = 0;
        uint64_t rows_before = 0;
        uint64_t rows_after = 0;
        uint64_t came = 0;
        assert_int_equal(selection_init(&s, &h.trace, &all, &e), 0);
        assert_int_equal(growth_build(&g, &s, NULL, times[w][0], times[w][1], &e), 0);
        for (size_t i = 0; i < h.n; i++) {
            const struct rh_block *b = &h.blocks[i];
            before += b->start <= times[w][0] && b->end > times[w][0] ? b->size : 0;
            after += b->start <= times[w][1] && b->end > times[w][1] ? b->size : 0;
            came += b->start > times[w][0] && b->start <= times[w][1];
        }
        assert_int_equal(g.bytes_before, before);
        assert_int_equal(g.bytes_after, after);
        for (size_t i = 0; i < g.rows.len; i++) {
            const struct growth_row *r = &g.rows.at[i];
            rows_before += r->bytes_before;
            rows_after += r->bytes_after;
            assert_true(r->count_before + r->allocations - r->frees == r->count_after);
            assert_true(r->allocations <= came);
            assert_true(i == 0 || growth_of(r[-1].bytes_before, r[-1].bytes_after) >=
                                      growth_of(r->bytes_before, r->bytes_after));
        }
        /* Sites that did not change are left out, on both sides alike. */
        assert_int_equal(before - rows_before, after - rows_after);
        growth_release(&g);
        selection_release(&s);
    }
    rh_release(&h);
}

static int fail_at(void *ctx, const struct memory_op *op, struct err *e)
{
    unsigned *left = ctx;
    (void)op;
    return (*left)-- ? 0 : err_set(e, ERR_CHECK, "enough");
}

static int stop(void *ctx, bool passed, struct err *e)
{
    (void)ctx;
    (void)e;
    return passed ? 0 : -1;
}

#define SAME_ROWS(A, B, ONE, TWO, THREE, FOUR)                                                     \
    assert_int_equal((A).rows.len, (B).rows.len);                                                  \
    for (size_t i = 0; i < (A).rows.len; i++)                                                      \
    assert_true((A).rows.at[i].ONE == (B).rows.at[i].ONE &&                                        \
                (A).rows.at[i].TWO == (B).rows.at[i].TWO &&                                        \
                (A).rows.at[i].THREE == (B).rows.at[i].THREE &&                                    \
                (A).rows.at[i].FOUR == (B).rows.at[i].FOUR)

/* Questions that share a sweep are answered as each alone; if it fails, by none. */
static void test_a_shared_pass(void **state)
{
    (void)state;
    static struct random_history h;
    for (uint32_t seed = 1; seed <= 8; seed++) {
        struct err e = {0};
        const struct selection_options all = {.has_size = seed % 2, .size_max = 1000};
        struct selection s;
        struct selection_pass p[5];
        struct leaks l, lone_l;
        struct growth g, lone_g;
        struct patterns t, lone_t;
        struct histograms c, lone_c;
        unsigned left = seed % 3 ? UINT32_MAX : seed * 20;
        rh_make(&h, seed);
        assert_int_equal(selection_init(&s, &h.trace, &all, &e), 0);
        assert_int_equal(leaks_begin(&p[0], &l, &s, NULL, NULL, &e), 0);
        assert_int_equal(growth_begin(&p[1], &g, &s, NULL, 50, 300, &e), 0);
        p[2] = (struct selection_pass){.to = {.ctx = &left, .op = fail_at, .beside = true}, stop};
        assert_int_equal(patterns_begin(&p[3], &t, &s, NULL, &e), 0);
        assert_int_equal(histograms_begin(&p[4], &c, &s, &e), 0);
        assert_int_equal(selection_answer(&s, p, 5, 0, &e), seed % 3 ? 0 : -1);
        if (seed % 3 == 0) {
            assert_int_equal(e.code, ERR_CHECK);
            assert_int_equal(l.rows.len + g.rows.len + t.rows.len, 0);
        } else {
            assert_int_equal(leaks_build(&lone_l, &s, NULL, NULL, &e), 0);
            assert_int_equal(growth_build(&lone_g, &s, NULL, 50, 300, &e), 0);
            assert_int_equal(patterns_build(&lone_t, &s, NULL, &e), 0);
            assert_int_equal(histograms_build(&lone_c, &s, &e), 0);
            assert_true(lone_c.total.count != 0 && lone_t.rows.len != 0);
            SAME_ROWS(l, lone_l, kind, bytes, last, z);
            SAME_ROWS(g, lone_g, bytes_before, bytes_after, frees, callstack);
            SAME_ROWS(t, lone_t, bytes, temporary, copied, peak_waste);
            assert_memory_equal(&c, &lone_c, sizeof c);
            leaks_release(&lone_l);
            growth_release(&lone_g);
            patterns_release(&lone_t);
        }
        leaks_release(&l);
        growth_release(&g);
        patterns_release(&t);
        selection_release(&s);
        rh_release(&h);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_patterns),      cmocka_unit_test(test_files),
        cmocka_unit_test(test_statistics),    cmocka_unit_test(test_known_leaks),
        cmocka_unit_test(test_random_sums),   cmocka_unit_test(test_growth),
        cmocka_unit_test(test_a_shared_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
