/* Facts of GPU memory, and their lines. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analysis/figures/summary_facts.h"
#include "test/unit/analysis_fixture.h"
#include "trace/store/kernel_plot.h"

static struct fixture f;

static void fact(const char *value)
{
    assert_int_equal(trace_add_fact(&f.trace, &f.e, "gpu_use", "%s", value), 0);
}

static void test_lines(void **state)
{
    static const struct {
        const char *fact, *line;
    } all[] = {
        {"unknown", "gpu: what the driver reports of the process is not known\n"},
        {"5 3072 1024 4096 8192",
         "gpu 3.00 KiB at 5 ns as the driver reports: attributed 1.00 KiB, not attributed 2.00 "
         "KiB; all processes 4.00 KiB of 8.00 KiB\n"},
        {"5 1024 3072 4096 8192",
         "gpu 1.00 KiB at 5 ns as the driver reports: attributed 3.00 KiB, 2.00 KiB more than "
         "that; all processes 4.00 KiB of 8.00 KiB\n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct buf lines = {0};
        fixture_init(&f);
        fact(all[i].fact);
        summary_lines(&lines, &f.trace);
        assert_string_equal(buf_str(&lines), all[i].line);
        buf_release(&lines);
        fixture_release(&f);
    }
}

static void test_malformed(void **state)
{
    static const char *const bad[] = {"", "1 2 3 4", "-1 2 3 4 5", "x 2 3 4 5", "unknown "};
    struct gpu_use use;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        fixture_init(&f);
        fact(bad[i]);
        assert_false(gpu_use_read(&f.trace, &use));
        fixture_release(&f);
    }
    fixture_init(&f);
    fact("5 3072 1024 4096 8192"); /* of two processes, in a merged trace */
    fact("5 3072 1024 4096 8192");
    assert_false(gpu_use_read(&f.trace, &use));
    fixture_release(&f);
}

static void reading(int64_t time, double process, double used, double size)
{
    const double values[] = {process, used, size};
    for (unsigned i = 0; i < 3; i++)
        plots_value(&f.trace.plots, MEMORY_PLOT_KEY(MEMORY_GPU_PROCESS + i), time, values[i], &f.e);
}

/* The last of the highest readings counts; values of a file may be any. */
static void test_the_highest_reading(void **state)
{
    struct gpu_use use;
    (void)state;
    fixture_init(&f);
    assert_int_equal(trace_add_fact(&f.trace, &f.e, "recorded", "by a test"), 0);
    reading(1, 100, 500, 1000);
    reading(2, 300, 600, 1000);
    reading(3, 300, 700, 1000);
    reading(4, 200, 800, 1000);
    reading(5, -1, 800, 1000);
    reading(6, 0x1p63, 800, 1000);
    assert_int_equal(gpu_use_note(&f.trace, &f.e), 0);
    assert_true(gpu_use_read(&f.trace, &use));
    assert_int_equal(use.time, 3);
    assert_int_equal(use.reported, 300);
    assert_int_equal(use.attributed, 0);
    assert_int_equal(use.used, 700);
    assert_int_equal(use.size, 1000);
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_the_highest_reading),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
