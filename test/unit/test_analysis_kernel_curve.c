/* What was resident over time, against a plain list of readings. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analysis/figures/kernel_curve.h"
#include "trace/store/kernel_plot.h"

#define READINGS 60u

static struct kernel_reading list[READINGS];

static uint64_t rnd(uint64_t below)
{
    static uint64_t seed = 5;
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (seed >> 33) % below;
}

static void value(struct trace *t, unsigned which, int64_t time, uint64_t bytes)
{
    struct err e = {0};
    assert_int_equal(plots_value(&t->plots, MEMORY_PLOT_KEY(which), time, (double)bytes, &e), 0);
}

/* `by_plot`: one plot after the other, as files have them. */
static void fill(struct trace *t, bool by_plot)
{
    int64_t time = 40;
    for (size_t i = 0; i < READINGS; i++) {
        struct kernel_reading *r = &list[i];
        time += 1 + (int64_t)rnd(30);
        *r = (struct kernel_reading){.time = time,
                                     .anonymous = 4096 * rnd(50),
                                     .file = 4096 * rnd(20),
                                     .shared = 4096 * rnd(3),
                                     .swapped = 4096 * rnd(3)};
        r->resident = r->anonymous + r->file + r->shared;
    }
    for (size_t k = 0; k < 4 * READINGS; k++) {
        size_t i = by_plot ? k % READINGS : k / 4;
        unsigned which = (unsigned)(by_plot ? k / READINGS : k % 4);
        const uint64_t all[] = {list[i].anonymous, list[i].file, list[i].shared, list[i].swapped};
        value(t, which, list[i].time, all[which]);
    }
    value(t, MEMORY_PSS, 50, UINT64_C(1) << 40);
}

/* The reading that counts at a time; NULL: it is not known. */
static const struct kernel_reading *at_time(int64_t time)
{
    const struct kernel_reading *found = NULL;
    for (size_t i = 0; i < READINGS && list[i].time <= time; i++)
        found = &list[i];
    return found == &list[READINGS - 1] && found->time != time ? NULL : found;
}

static void check(struct trace *t, int64_t begin, int64_t end, size_t count)
{
    struct kernel_curve c;
    struct err e = {0};
    assert_int_equal(kernel_curve_build(&c, t, begin, end, count, &e), 0);
    for (size_t i = 0; i < count; i++) {
        int64_t from = begin + (end - begin) * (int64_t)i / (int64_t)count;
        int64_t to = begin + (end - begin) * (int64_t)(i + 1) / (int64_t)count;
        const struct kernel_reading *want = NULL;
        for (int64_t time = from; time < to; time++) {
            const struct kernel_reading *now = at_time(time);
            if (now && (!want || now->resident > want->resident))
                want = now;
        }
        assert_int_equal(c.buckets[i].known, want != NULL);
        if (want)
            assert_memory_equal(&c.buckets[i].high, want, sizeof *want);
    }
    kernel_curve_release(&c);
}

static void test_against_a_list(void **state)
{
    (void)state;
    for (int by_plot = 0; by_plot < 2; by_plot++) {
        struct trace t;
        struct err e = {0};
        assert_int_equal(trace_init(&t, NULL, &e), 0);
        fill(&t, by_plot);
        int64_t end = list[READINGS - 1].time + 50;
        check(&t, 0, end, 1);
        check(&t, 0, end, 7);
        check(&t, 0, end, (size_t)end);
        check(&t, 300, 500, 13);
        check(&t, end - 40, end + 100, 4); /* after the last reading */
        check(&t, 0, 10, 2);               /* before the first one */
        trace_release(&t);
    }
}

static void test_the_last_reading(void **state)
{
    (void)state;
    struct kernel_curve c;
    struct trace t;
    struct err e = {0};
    assert_int_equal(trace_init(&t, NULL, &e), 0);
    fill(&t, false);
    assert_int_equal(kernel_curve_build(&c, &t, 0, INT64_C(1) << 40, 3, &e), 0);
    assert_memory_equal(&c.last, &list[READINGS - 1], sizeof c.last);
    kernel_curve_release(&c);
    trace_release(&t);
}

static void test_times_that_descend(void **state)
{
    (void)state;
    static const int64_t times[] = {30, 10, 20};
    struct kernel_curve c;
    struct trace t;
    struct err e = {0};
    assert_int_equal(trace_init(&t, NULL, &e), 0);
    for (size_t i = 0; i < 3; i++) {
        value(&t, MEMORY_RSS_ANON, times[i], (uint64_t)times[i]);
        value(&t, MEMORY_RSS_FILE, times[i], 1);
    }
    assert_int_equal(kernel_curve_build(&c, &t, 0, 40, 4, &e), 0);
    assert_false(c.buckets[0].known);
    for (size_t i = 1; i < 4; i++)
        assert_int_equal(c.buckets[i].high.resident, 10 * i + 1);
    kernel_curve_release(&c);
    trace_release(&t);
}

static void test_a_trace_without_such_plots(void **state)
{
    (void)state;
    struct kernel_curve c;
    struct trace t;
    struct err e = {0};
    assert_int_equal(trace_init(&t, NULL, &e), 0);
    assert_int_equal(plots_value(&t.plots, 0x1000, 5, 7, &e), 0);
    assert_int_equal(kernel_curve_build(&c, &t, 0, 40, 4, &e), 0);
    assert_null(c.buckets);
    kernel_curve_release(&c);
    trace_release(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_a_list),
        cmocka_unit_test(test_the_last_reading),
        cmocka_unit_test(test_times_that_descend),
        cmocka_unit_test(test_a_trace_without_such_plots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
