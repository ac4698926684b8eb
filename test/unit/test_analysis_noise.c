/*
 * The permutation test against a plain oracle: every division by recursion, the statistic from its
 * definition. And its promise: of all divisions of any data, no more than the level are reported.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/runs/noise.h"

enum { RUNS_MOST = 10, ROWS_MOST = 6 };

static uint64_t next(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

/* ---- the oracle */

struct oracle {
    const double *values; /* rows of `total` */
    const double *floors;
    size_t rows, total, first;
    double unstable; /* 0: nothing is muted */
    double *largest;
    size_t divisions;
};

static double mean_of(const double *v, const bool *in_first, size_t n, bool first)
{
    double sum = 0, count = 0;
    for (size_t i = 0; i < n; i++) {
        if (in_first[i] == first) {
            sum += v[i];
            count++;
        }
    }
    return sum / count;
}

static double statistic(const struct oracle *o, size_t row, const bool *in_first)
{
    const double *v = o->values + row * o->total;
    double m[2] = {mean_of(v, in_first, o->total, true), mean_of(v, in_first, o->total, false)};
    double squares = 0, all = 0, n0 = (double)o->first, n1 = (double)(o->total - o->first);
    for (size_t i = 0; i < o->total; i++) {
        double d = v[i] - m[in_first[i] ? 0 : 1];
        squares += d * d;
        all += v[i] / (double)o->total;
    }
    double variance = o->total > 2 ? squares / (n0 + n1 - 2) : 0;
    double error = sqrt(variance * (1 / n0 + 1 / n1)) + o->floors[row];
    if (fabs(m[0] - m[1]) < 1e-9 || (o->unstable > 0 && sqrt(variance) > o->unstable * fabs(all)))
        return 0;
    return fabs(m[1] - m[0]) / error;
}

static void divide(struct oracle *o, bool *in_first, size_t at, size_t left)
{
    if (at == o->total) {
        double most = 0;
        for (size_t row = 0; row < o->rows && left == 0; row++)
            most = fmax(most, statistic(o, row, in_first));
        if (left == 0)
            o->largest[o->divisions++] = most;
        return;
    }
    for (int pick = 0; pick < 2; pick++) {
        in_first[at] = pick;
        if (left >= (size_t)pick)
            divide(o, in_first, at + 1, left - (size_t)pick);
    }
    in_first[at] = false;
}

/* The corrected p of each row. */
static void ask(struct oracle *o, double *p)
{
    double largest[1024];
    bool in_first[RUNS_MOST] = {false};
    o->largest = largest;
    o->divisions = 0;
    divide(o, in_first, 0, o->first);
    for (size_t i = 0; i < o->total; i++)
        in_first[i] = i < o->first;
    for (size_t row = 0; row < o->rows; row++) {
        double own = statistic(o, row, in_first);
        size_t above = 0;
        for (size_t i = 0; i < o->divisions; i++)
            above += largest[i] >= own * (1 - 1e-9);
        p[row] = own > 0 ? (double)above / (double)o->divisions : 1;
    }
}

/* ---- random data: ties, constants, two values, and wide ranges */

static double random_value(uint64_t *seed, unsigned kind)
{
    switch (kind % 4) {
    case 0:
        return (double)(next(seed) % 3);
    case 1:
        return 1000;
    case 2:
        return (double)(next(seed) % 2 ? 1000 : 5000000);
    default:
        return (double)(next(seed) % 1000000);
    }
}

static void test_oracle(void **state)
{
    uint64_t seed = 88172645463325252;
    (void)state;
    for (int round = 0; round < 600; round++) {
        double values[ROWS_MOST * RUNS_MOST], floors[ROWS_MOST], p[ROWS_MOST];
        struct noise_row rows[ROWS_MOST];
        struct noise n;
        struct err e = {0};
        size_t first = 1 + next(&seed) % 5, second = 1 + next(&seed) % 5;
        const size_t runs[2] = {first, second};
        struct oracle o = {.values = values,
                           .floors = floors,
                           .rows = 1 + next(&seed) % ROWS_MOST,
                           .total = first + second,
                           .first = first,
                           .unstable = round % 3 == 0 ? 0.2 : 0};
        const struct noise_options options = {
            .level = 0.05, .unstable = 0.2, .mute_unstable = round % 3 == 0};
        memset(rows, 0, sizeof rows);
        for (size_t row = 0; row < o.rows; row++) {
            unsigned kind = (unsigned)next(&seed);
            rows[row].floor = floors[row] = (double)(next(&seed) % 50 + 1) / 10;
            for (size_t i = 0; i < o.total; i++)
                values[row * o.total + i] = random_value(&seed, kind);
        }
        ask(&o, p);
        assert_int_equal(noise_test(&n, runs, values, rows, o.rows, &options, &e), 0);
        assert_int_equal(n.splits, o.divisions);
        assert_true(n.all_splits);
        for (size_t row = 0; row < o.rows; row++) {
            assert_true(fabs(rows[row].p - p[row]) < 1e-12);
            assert_int_equal(rows[row].changed, n.can_tell && p[row] <= 0.05);
            /* The interval excludes no change exactly if a change is reported. */
            if (!isnan(rows[row].low))
                assert_int_equal(rows[row].changed, rows[row].low > 0 || rows[row].high < 0);
        }
    }
}

/* ---- the promise: any order of any ten runs is as likely as another */

static void permute(struct noise_options options, const double *values, size_t rows, size_t *alarms,
                    size_t *divisions)
{
    const size_t runs[2] = {5, 5};
    for (unsigned set = 0; set < 1u << 10; set++) {
        double ordered[ROWS_MOST * 10];
        struct noise_row out[ROWS_MOST];
        struct noise n;
        struct err e = {0};
        if (__builtin_popcount(set) != 5)
            continue;
        memset(out, 0, sizeof out);
        for (size_t row = 0; row < rows; row++) {
            size_t at[2] = {0, 5};
            out[row].floor = 1;
            for (unsigned i = 0; i < 10; i++)
                ordered[row * 10 + at[set >> i & 1]++] = values[row * 10 + i];
        }
        assert_int_equal(noise_test(&n, runs, ordered, out, rows, &options, &e), 0);
        bool any = false;
        for (size_t row = 0; row < rows; row++)
            any |= out[row].changed;
        *alarms += any;
        ++*divisions;
    }
}

static void test_false_alarms(void **state)
{
    uint64_t seed = 4101842887655102017;
    size_t alarms = 0, divisions = 0;
    (void)state;
    for (unsigned kind = 0; kind < 24; kind++) {
        double values[ROWS_MOST * 10];
        size_t before = alarms;
        for (size_t i = 0; i < ROWS_MOST * 10; i++)
            values[i] = random_value(&seed, kind + (unsigned)(i / 10));
        permute((struct noise_options){.level = 0.01, .unstable = 0.1, .mute_unstable = kind & 1},
                values, ROWS_MOST, &alarms, &divisions);
        assert_true(alarms - before <= 2); /* of 252 */
    }
    assert_int_equal(divisions, 24 * 252);
    assert_true(alarms > 0); /* the test can report something at all */
}

/* ---- what it finds, and what it cannot know */

static void test_planted(void **state)
{
    /* A constant program that grew by 5 % beside a figure that is nothing but noise. */
    const double values[] = {100, 100, 100, 100, 100, 105, 105, 105, 105, 105,
                             13,  60,  25,  14,  50,  30,  58,  17,  22,  41};
    const size_t runs[2] = {5, 5};
    const struct noise_options options = {.level = 0.01, .unstable = 0.1};
    struct noise_row rows[2] = {{.floor = 0.1}, {.floor = 0.1}};
    struct noise n;
    struct err e = {0};
    (void)state;
    assert_int_equal(noise_test(&n, runs, values, rows, 2, &options, &e), 0);
    assert_true(n.can_tell);
    assert_true(rows[0].changed && !rows[0].unstable);
    assert_true(rows[0].low > 0 && rows[0].low < 5 && rows[0].high > 5);
    assert_true(rows[0].median[0] == 100 && rows[0].median[1] == 105 && rows[0].spread[0] == 0);
    assert_true(!rows[1].changed && rows[1].unstable);
    assert_true(rows[1].median[0] == 25 && rows[1].low < 0 && rows[1].high > 0);
}

static void test_too_few(void **state)
{
    const double values[] = {100, 100, 100, 200, 200, 200};
    const struct noise_options options = {.level = 0.01, .unstable = 0.1};
    struct noise_row row = {0};
    struct noise n;
    struct err e = {0};
    (void)state;
    assert_int_equal(noise_test(&n, (size_t[]){3, 3}, values, &row, 1, &options, &e), 0);
    assert_true(!n.can_tell && !row.changed && isnan(row.low));
    assert_true(fabs(n.least_p - 0.1) < 1e-12 && fabs(row.p - 0.1) < 1e-12);
    assert_int_equal(noise_test(&n, (size_t[]){1, 1}, values + 2, &row, 1, &options, &e), 0);
    assert_true(!n.can_tell && !row.changed && isnan(row.spread[0]));
    assert_int_equal(noise_runs_needed(0.01), 5);
    assert_int_equal(noise_runs_needed(0.05), 4);
    assert_int_equal(noise_test(&n, (size_t[]){5, 0}, values, &row, 1, &options, &e), -1);
    assert_int_equal(noise_test(&n, (size_t[]){150, 100}, values, &row, 1, &options, &e), -1);
}

/* More divisions than are tried: some by chance, and the result is the same each time. */
static void test_many_runs(void **state)
{
    const size_t runs[2] = {20, 20};
    const struct noise_options options = {.level = 0.01, .unstable = 0.1};
    uint64_t seed = 1181783497276652981;
    double values[80];
    struct noise_row rows[2] = {{.floor = 0.1}, {.floor = 0.1}}, again[2];
    struct noise n;
    struct err e = {0};
    (void)state;
    for (size_t i = 0; i < 40; i++) {
        values[i] = (double)(1000 + next(&seed) % 20 + (i < 20 ? 0 : 15));
        values[40 + i] = (double)(1000 + next(&seed) % 20);
    }
    memcpy(again, rows, sizeof again);
    assert_int_equal(noise_test(&n, runs, values, rows, 2, &options, &e), 0);
    assert_true(!n.all_splits && n.splits == NOISE_SPLITS && n.can_tell);
    assert_true(rows[0].changed && !rows[1].changed);
    assert_int_equal(noise_test(&n, runs, values, again, 2, &options, &e), 0);
    assert_memory_equal(&rows[0].p, &again[0].p, sizeof rows[0].p);
    assert_memory_equal(&rows[1].p, &again[1].p, sizeof rows[1].p);
}

/* One group: described, not tested. */
static void test_one_group(void **state)
{
    const double values[] = {100, 100, 130, 7, 7, 7};
    const struct noise_options options = {.level = 0.01, .unstable = 0.1};
    struct noise_row rows[2] = {{.floor = 0}, {.floor = 0}};
    struct noise n;
    struct err e = {0};
    (void)state;
    assert_int_equal(noise_test(&n, (size_t[]){0, 3}, values, rows, 2, &options, &e), 0);
    assert_true(!n.can_tell && n.splits == 0 && isnan(n.least_p));
    assert_true(rows[0].median[1] == 100 && fabs(rows[0].mean[1] - 110) < 1e-9);
    assert_true(rows[0].unstable && !rows[1].unstable && rows[1].spread[1] == 0);
    for (int i = 0; i < 2; i++)
        assert_true(!rows[i].changed && isnan(rows[i].change) && isnan(rows[i].median[0]));
}

/* Of many figures fewer divisions are tried, and a planted change is still found. */
static void test_work_is_bounded(void **state)
{
    enum { ROWS = 20000 };
    const size_t runs[2] = {20, 20};
    const struct noise_options options = {.level = 0.01, .unstable = 0.1};
    uint64_t seed = 2685821657736338717;
    double *values = calloc(ROWS * 40, sizeof *values);
    struct noise_row *rows = calloc(ROWS, sizeof *rows);
    struct noise n;
    struct err e = {0};
    (void)state;
    assert_non_null(values);
    assert_non_null(rows);
    for (size_t i = 0; i < ROWS; i++) {
        rows[i].floor = 1;
        /* Most rows are constant, and cost nothing: the bound counts them all the same. */
        for (size_t k = 0; k < 40; k++)
            values[i * 40 + k] = 1000 + (double)(i < 50 ? next(&seed) % 20 : 0);
    }
    for (size_t k = 20; k < 40; k++)
        values[k] += 30;
    assert_int_equal(noise_test(&n, runs, values, rows, ROWS, &options, &e), 0);
    assert_int_equal(n.splits, NOISE_WORK / 20 / ROWS);
    assert_true(n.can_tell && !n.all_splits && rows[0].changed);
    for (size_t i = 1; i < ROWS; i++)
        assert_false(rows[i].changed);
    assert_int_equal(noise_test(&n, (size_t[]){39, 1}, values, rows, ROWS, &options, &e), 0);
    assert_true(n.all_splits && n.splits == 40);
    free(values);
    free(rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_oracle),          cmocka_unit_test(test_false_alarms),
        cmocka_unit_test(test_planted),         cmocka_unit_test(test_too_few),
        cmocka_unit_test(test_many_runs),       cmocka_unit_test(test_one_group),
        cmocka_unit_test(test_work_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
