/* Which stretch of the kernel's readings counts as near the limit, and what grew in it. */

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analysis/figures/summary_facts.h"
#include "analysis/questions/near_limit.h"
#include "test/unit/analysis_fixture.h"
#include "trace/store/kernel_plot.h"

static struct fixture f;

static void reading(int64_t time, double use, double limit)
{
    plots_value(&f.trace.plots, MEMORY_PLOT_KEY(MEMORY_CGROUP_USE), time, use, &f.e);
    plots_value(&f.trace.plots, MEMORY_PLOT_KEY(MEMORY_CGROUP_LIMIT), time, limit, &f.e);
}

/* Ten blocks of 100 bytes of one site at 1 … 10 ns, the other site's ten after them. */
static void begin(void)
{
    fixture_init(&f);
    uint32_t base = fixture_stack(&f, 16, "base", "a.c", 1);
    uint32_t grower = fixture_stack(&f, 32, "grower", "b.c", 2);
    for (uint64_t i = 0; i < 20; i++)
        fixture_alloc(&f, 0, 4096 + i * 128, 100, i < 10 ? base : grower);
}

static bool found(struct near_limit *n)
{
    assert_int_equal(near_limit_note(&f.trace, &f.e), 0);
    return near_limit_read(&f.trace, n);
}

static void assert_words(const struct near_limit *n, const char *expected)
{
    struct buf words = {0};
    near_limit_words(&words, n);
    assert_string_equal(buf_str(&words), expected);
    buf_release(&words);
}

static void test_far_from_it(void **state)
{
    struct near_limit n;
    (void)state;
    begin();
    reading(5, 500, 1000);
    reading(6, 899, 1000);
    reading(7, 2000, 0);
    reading(8, 2000, 0x1p62);
    reading(9, -1, 1000);
    assert_false(found(&n));
    assert_false(trace_fact(&f.trace, "near_limit", 0).p);
    fixture_release(&f);
}

/* Two readings of a use of 990 of 1000: at 5 ns 300 are pages of files, at `time` so many. */
static bool found_with_files(struct near_limit *n, int64_t time, double files)
{
    begin();
    reading(5, 990, 1000);
    plots_value(&f.trace.plots, MEMORY_PLOT_KEY(MEMORY_CGROUP_FILE), 5, 300, &f.e);
    reading(time, 990, 1000);
    plots_value(&f.trace.plots, MEMORY_PLOT_KEY(MEMORY_CGROUP_FILE), time, files, &f.e);
    return found(n);
}

/* The kernel drops them before it kills. */
static void test_pages_of_files(void **state)
{
    struct near_limit n;
    (void)state;
    assert_false(found_with_files(&n, 8, 2000));
    fixture_release(&f);
    assert_true(found_with_files(&n, 12, 40));
    assert_words(
        &n, "limit: the cgroup used 950 B of 1000 B by 12 ns, less than 80 % until 5 ns; then live "
            "blocks grew by 700 B: 500 B at base (a.c:1), 200 B at grower (b.c:2)");
    fixture_release(&f);
}

static void test_the_last_stretch(void **state)
{
    struct near_limit n;
    (void)state;
    begin();
    reading(3, 990, 1000);
    reading(8, 799, 1000);
    reading(9, 800, 1000);
    reading(12, 990, 1000);
    reading(14, 950, 1000);
    assert_true(found(&n));
    assert_int_equal(n.from, 8);
    assert_int_equal(n.to, 12);
    assert_words(
        &n, "limit: the cgroup used 990 B of 1000 B by 12 ns, less than 80 % until 8 ns; then live "
            "blocks grew by 400 B: 200 B at base (a.c:1), 200 B at grower (b.c:2)");
    fixture_release(&f);
}

static void test_a_kill_goes_to_the_end(void **state)
{
    struct near_limit n;
    (void)state;
    begin();
    reading(1, 900, 1000);
    reading(12, 950, 1000);
    assert_int_equal(trace_add_fact(&f.trace, &f.e, "oom_kills", "1 limit 1000"), 0);
    assert_true(found(&n));
    assert_int_equal(n.from, -1);
    assert_int_equal(n.to, 20);
    assert_words(
        &n, "limit: the cgroup used 950 B of 1000 B by 20 ns, 80 % or more from the beginning; "
            "live blocks grew by 1.95 KiB: 1000 B at base (a.c:1), 1000 B at grower (b.c:2); the "
            "OOM killer killed 1 program in the memory cgroup");
    fixture_release(&f);
}

/* Which programs they were is not known. */
static void test_kills_until_the_recovery(void **state)
{
    struct near_limit n;
    (void)state;
    begin();
    assert_int_equal(trace_add_fact(&f.trace, &f.e, "oom_kills", "2 limit 1000 at recovery"), 0);
    assert_true(found(&n));
    assert_true(n.recovered);
    assert_words(&n,
                 "limit: the OOM killer killed 2 programs in the memory cgroup between its first "
                 "reading and the recovery");
    fixture_release(&f);
}

static void kill_client(const char *end)
{
    plots_value(&f.trace.plots, MEMORY_PLOT_KEY(MEMORY_CGROUP_KILLS), 2, 0, &f.e);
    plots_value(&f.trace.plots, MEMORY_PLOT_KEY(MEMORY_CGROUP_KILLS), 20, 1, &f.e);
    assert_int_equal(trace_add_fact(&f.trace, &f.e, "end", "%s", end), 0);
}

/* No reading was near the limit. */
static void test_a_kill_of_a_client(void **state)
{
    struct near_limit n;
    (void)state;
    begin();
    reading(10, 500, 1000);
    kill_client("the client vanished");
    assert_true(found(&n));
    assert_int_equal(n.kills, 1);
    assert_words(&n, "limit: the cgroup used 500 B of 1000 B by 20 ns, less than 80 % until 10 ns; "
                     "then live blocks grew by 1000 B: 1000 B at grower (b.c:2); the OOM killer "
                     "killed 1 program in the memory cgroup");
    fixture_release(&f);
}

static void test_a_kill_without_a_limit(void **state)
{
    struct near_limit n;
    (void)state;
    begin();
    kill_client("the client vanished");
    assert_true(found(&n));
    assert_words(&n, "limit: the OOM killer killed 1 program in the memory cgroup");
    fixture_release(&f);
}

static void test_a_kill_of_another_program(void **state)
{
    struct near_limit n;
    (void)state;
    begin();
    kill_client("the client ended");
    assert_false(found(&n));
    fixture_release(&f);
}

static void test_what_was_freed_did_not_grow(void **state)
{
    struct near_limit n;
    (void)state;
    begin();
    for (uint64_t i = 0; i < 20; i++)
        fixture_free(&f, 0, 4096 + i * 128, 0);
    reading(20, 10, 1000);
    reading(40, 950, 1000);
    assert_true(found(&n));
    assert_true(view_equal(n.growth, view_of("live blocks did not grow")));
    fixture_release(&f);
}

static void pressure(int64_t time, enum memory_value of, double percent)
{
    plots_value(&f.trace.plots, MEMORY_PLOT_KEY(of), time, percent, &f.e);
}

#define SECOND INT64_C(1000000000)

/* 400 ms at 30 % are 12 % of a second and less, 200 ms and 400 ms at 20 % are not 10 %. */
static void test_pressure(void **state)
{
    static const enum memory_value sources[] = {MEMORY_CGROUP_FULL, MEMORY_SYSTEM_FULL};
    for (size_t i = 0; i < 2; i++) {
        struct near_limit n;
        (void)state;
        begin();
        for (int64_t k = 1; k < 30; k++)
            pressure(k * SECOND / 10, sources[i], k == 3 || k == 4 ? 20 : k < 12 ? 0 : 50);
        pressure(3 * SECOND, sources[i], NAN);
        assert_true(found(&n));
        assert_int_equal(n.limit, 0);
        assert_int_equal(n.from, 12 * SECOND / 10 - SECOND / 10);
        assert_int_equal(n.to, 29 * SECOND / 10);
        assert_in_range(n.waited, 40, 42);
        assert_int_equal(n.use, 0);
        fixture_release(&f);
    }
}

static void test_a_short_wait_is_no_pressure(void **state)
{
    struct near_limit n;
    (void)state;
    begin();
    for (int64_t k = 1; k < 30; k++)
        pressure(k * SECOND / 10, MEMORY_CGROUP_FULL, k == 5 ? 60 : k % 3 == 0 ? 10 : 0);
    assert_false(found(&n));
    fixture_release(&f);
}

static void test_use_is_found_rather_than_pressure(void **state)
{
    struct near_limit n;
    (void)state;
    begin();
    reading(SECOND, 100, 1000);
    for (int64_t k = 2; k < 6; k++) {
        reading(k * SECOND, k == 3 ? 950 : 100, 1000);
        pressure(k * SECOND, MEMORY_CGROUP_FULL, 60);
    }
    assert_true(found(&n));
    assert_int_equal(n.limit, 1000);
    assert_int_equal(n.to, 3 * SECOND);
    assert_int_equal(n.from, SECOND);
    fixture_release(&f);
}

static void test_malformed_facts(void **state)
{
    static const char *const bad[] = {"",           "1 2 3",     "1 2 3 x y",
                                      "1 -2 3 4 y", "a b c d e", "1 2 101 0 x"};
    struct near_limit n;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        begin();
        assert_int_equal(trace_add_fact(&f.trace, &f.e, "near_limit", "%s", bad[i]), 0);
        assert_false(near_limit_read(&f.trace, &n));
        fixture_release(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_far_from_it),
        cmocka_unit_test(test_pages_of_files),
        cmocka_unit_test(test_the_last_stretch),
        cmocka_unit_test(test_a_kill_goes_to_the_end),
        cmocka_unit_test(test_kills_until_the_recovery),
        cmocka_unit_test(test_a_kill_of_a_client),
        cmocka_unit_test(test_a_kill_without_a_limit),
        cmocka_unit_test(test_a_kill_of_another_program),
        cmocka_unit_test(test_what_was_freed_did_not_grow),
        cmocka_unit_test(test_pressure),
        cmocka_unit_test(test_a_short_wait_is_no_pressure),
        cmocka_unit_test(test_use_is_found_rather_than_pressure),
        cmocka_unit_test(test_malformed_facts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
