/* Plots and processors, from events to records. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>

#include "test/unit/ingest_test.h"

static void value(struct fixture *f, uint64_t name, int64_t time, double v)
{
    struct event ev = {.kind = EVENT_PLOT, .time = time};
    ev.plot.name = name;
    ev.plot.value = v;
    put(f, &ev);
}

static void power(struct fixture *f, uint64_t name, int64_t time, uint64_t energy)
{
    struct event ev = {.kind = EVENT_SYS_POWER, .time = time};
    ev.power.name = name;
    ev.power.delta = energy;
    put(f, &ev);
}

static void plots_are_sorted_by_time(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 0);
    value(&f, 0x10, 10, 5);
    value(&f, 0x20, 11, 7);
    value(&f, 0x10, 30, -2); /* one thread's values come after another's */
    value(&f, 0x10, 20, 3);
    value(&f, 0x10, 20, 4); /* at one time: in the order in which they came */
    put_name(&f, EVENT_PLOT_NAME, 0x20, "two");
    put_name(&f, EVENT_PLOT_NAME, 0x10, "one");
    assert_string_equal(saved(&f, "p"), "plot 20 type 0 format 0 01 0 min 7 max 7 sum 7 n 1\n"
                                        "point 11 7\n"
                                        "plot 10 type 0 format 0 01 0 min -2 max 5 sum 10 n 4\n"
                                        "point 10 5\n"
                                        "point 20 3\n"
                                        "point 20 4\n"
                                        "point 30 -2\n");
    assert_true(f.t.facts.last_time == 30);
    fixture_release(&f);
}

static void values_that_are_no_numbers_are_not_kept(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 0);
    value(&f, 0x10, 10, (double)NAN);
    value(&f, 0x20, 11, (double)INFINITY);
    value(&f, 0x20, 12, 1);
    value(&f, 0x20, 13, -(double)INFINITY);
    put_name(&f, EVENT_PLOT_NAME, 0x20, "two");
    assert_string_equal(saved(&f, "p"), "plot 20 type 0 format 0 01 0 min 1 max 1 sum 1 n 1\n"
                                        "point 12 1\n");
    assert_true(f.t.facts.last_time == 12);
    fixture_release(&f);
}

static void plots_of_one_text_are_one(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 0);
    struct event config = {.kind = EVENT_PLOT_CONFIG};
    config.plot_config.name = 0x10;
    config.plot_config.type = 2;
    config.plot_config.step = 1;
    config.plot_config.color = 0x123456;
    put(&f, &config); /* before there are values */
    value(&f, 0x20, 9, 8);
    put_name(&f, EVENT_PLOT_NAME, 0x10, "same");
    value(&f, 0x10, 10, 1);
    put_name(&f, EVENT_PLOT_NAME, 0x20, "same");
    value(&f, 0x20, 8, 2);
    value(&f, 0x30, 12, 3); /* never named: kept all the same */
    assert_string_equal(saved(&f, "p"), "plot 10 type 0 format 2 10 123456 min 1 max 8 sum 11 n 3\n"
                                        "point 8 2\n"
                                        "point 9 8\n"
                                        "point 10 1\n"
                                        "plot 30 type 0 format 0 01 0 min 3 max 3 sum 3 n 1\n"
                                        "point 12 3\n");
    fixture_release(&f);
}

static void the_system_has_plots_of_its_own(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 0);
    struct event load = {.kind = EVENT_SYS_TIME, .time = 5, .number_f = 12.5};
    put(&f, &load);
    power(&f, 0x50, 1000, 77); /* begins the plot, without a value */
    power(&f, 0x60, 1000, 0);
    assert_true(f.t.facts.last_time == 5);
    power(&f, 0x50, 3000, 4); /* 4 uJ in 2 us */
    power(&f, 0x50, 3000, 4); /* in no time */
    assert_string_equal(saved(&f, "p"), "plot 0 type 2 format 2 01 0 min 12.5 max 12.5 sum 12.5 "
                                        "n 1\n"
                                        "point 5 12.5\n"
                                        "plot 50 type 3 format 3 01 0 min 2 max 2 sum 2 n 1\n"
                                        "point 3000 2\n"
                                        "plot 60 type 3 format 3 01 0 min 0 max 0 sum 0 n 0\n");
    fixture_release(&f);
}

static void power_goes_on_across_parts(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 0);
    f.in.part_full = part_is_full;
    f.in.time_limit = 10000;
    value(&f, 0x10, 100, 9);
    power(&f, 0x50, 9000, 1);
    power(&f, 0x50, 11000, 4);
    assert_int_equal(f.in.parts, 1);
    assert_string_equal(saved(&f, "p"), "plot 50 type 3 format 3 01 0 min 2 max 2 sum 2 n 1\n"
                                        "point 0 2\n"
                                        "plot 10 type 0 format 0 01 0 min 0 max 0 sum 0 n 0\n");
    fixture_release(&f);
}

/* Many plots, more points than memory is allowed to hold, all against plain arrays. */
static void many_points_come_back_sorted(void **state)
{
    (void)state;
    enum { PLOTS = 50, POINTS = 400000 };
    struct fixture f;
    fixture_init(&f, 1u << 20);
    uint64_t seed = 5, count[PLOTS] = {0};
    double sum[PLOTS] = {0};
    for (int i = 0; i < POINTS; i++) {
        unsigned plot = (unsigned)(next_random(&seed) % PLOTS);
        double v = (double)(next_random(&seed) % 1000);
        int64_t late = plot % 2 ? (int64_t)(next_random(&seed) % 500) : 0;
        value(&f, 0x100 + plot, 1000 + i - late, v);
        sum[plot] += v;
        count[plot]++;
    }
    assert_true(f.t.spool.end > 0);
    const char *text = saved(&f, "p");
    long long last = -1;
    unsigned plots = 0;
    uint64_t points = 0;
    for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
        if (line[1] == 'l') {
            unsigned long name = strtoul(line + 5, NULL, 16) - 0x100;
            char want[64];
            snprintf(want, sizeof want, "sum %g n %llu\n", sum[name],
                     (unsigned long long)count[name]);
            assert_int_equal(strncmp(strstr(line, "sum"), want, strlen(want)), 0);
            last = -1;
            plots++;
        } else {
            long long time = strtoll(line + 6, NULL, 10);
            assert_true(time >= last);
            last = time;
            points++;
        }
    }
    assert_int_equal(plots, PLOTS);
    assert_int_equal(points, POINTS);
    fixture_release(&f);
}

/* ---- the system */

static void add_cpu(struct fixture *f, uint32_t package, uint32_t die, uint32_t core, uint32_t cpu)
{
    struct event ev = {.kind = EVENT_CPU_TOPOLOGY};
    ev.topology.package = package;
    ev.topology.die = die;
    ev.topology.core = core;
    ev.topology.cpu = cpu;
    put(f, &ev);
}

static void processors_become_a_tree(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 0);
    assert_string_equal(saved(&f, "c"), "crash 0 0 0\n");
    add_cpu(&f, 1, 0, 0, 4);
    add_cpu(&f, 0, 1, 3, 1);
    add_cpu(&f, 0, 0, 3, 2);
    add_cpu(&f, 0, 0, 3, 0);
    add_cpu(&f, 0, 0, 2, 3);
    add_cpu(&f, 5, 5, 5, 3); /* told again, differently */
    struct event crash = {.kind = EVENT_CRASH_REPORT, .thread = 7, .time = 99};
    crash.crash.text = 0xabc;
    put(&f, &crash);
    assert_string_equal(saved(&f, "c"), "cpus: package 0 2\n"
                                        "cpus: die 0 2\n"
                                        "cpus: core 2 1\n"
                                        "cpus: cpu 3 0\n"
                                        "cpus: core 3 2\n"
                                        "cpus: cpu 2 0\n"
                                        "cpus: cpu 0 0\n"
                                        "cpus: die 1 1\n"
                                        "cpus: core 3 1\n"
                                        "cpus: cpu 1 0\n"
                                        "cpus: package 1 1\n"
                                        "cpus: die 0 1\n"
                                        "cpus: core 0 1\n"
                                        "cpus: cpu 4 0\n"
                                        "crash 7 99 abc\n");
    uint16_t number;
    assert_int_equal(trace_thread_number(&f.t, 7, &number, &f.e), 0);
    assert_true(f.t.threads.list.at[number].listed);
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plots_are_sorted_by_time),
        cmocka_unit_test(values_that_are_no_numbers_are_not_kept),
        cmocka_unit_test(plots_of_one_text_are_one),
        cmocka_unit_test(the_system_has_plots_of_its_own),
        cmocka_unit_test(power_goes_on_across_parts),
        cmocka_unit_test(many_points_come_back_sorted),
        cmocka_unit_test(processors_become_a_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
