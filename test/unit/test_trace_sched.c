/* Context switches: merging rules one by one, then random streams against a simple model. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "trace/store/sched.h"

struct fixture {
    struct spool spool;
    struct sched s;
    struct err e;
    /* what a walk handed over */
    struct sched_run *runs;
    size_t n;
    uint64_t counts[SCHED_CPUS];
    size_t lists;
};

#define RUNS 400000u

static int begin_list(void *ctx, uint32_t list, uint64_t count, struct err *e)
{
    struct fixture *f = ctx;
    (void)e;
    assert_int_equal(list, f->lists);
    f->counts[f->lists++] = count;
    return 0;
}

static int take_run(void *ctx, const struct sched_run *run, struct err *e)
{
    struct fixture *f = ctx;
    (void)e;
    assert_true(f->n < RUNS);
    f->runs[f->n++] = *run;
    return 0;
}

static void setup(struct fixture *f, size_t budget)
{
    memset(f, 0, sizeof *f);
    assert_int_equal(spool_init(&f->spool, NULL, budget, &f->e), 0);
    sched_init(&f->s, &f->spool);
    f->runs = calloc(RUNS, sizeof *f->runs);
    assert_non_null(f->runs);
}

static void teardown(struct fixture *f)
{
    sched_release(&f->s);
    spool_release(&f->spool);
    free(f->runs);
}

static void walk_threads(struct fixture *f)
{
    struct sched_lists to = {f, begin_list, take_run};
    uint32_t order[SCHED_CPUS];
    assert_true(f->s.threads.len <= SCHED_CPUS);
    for (uint32_t i = 0; i < f->s.threads.len; i++)
        order[i] = i;
    f->n = f->lists = 0;
    assert_int_equal(sched_walk_threads(&f->s, order, f->s.threads.len, NULL, &to, &f->e), 0);
    assert_int_equal(f->lists, f->s.threads.len);
}

static void walk_cpus(struct fixture *f)
{
    struct sched_lists to = {f, begin_list, take_run};
    f->n = f->lists = 0;
    assert_int_equal(sched_walk_cpus(&f->s, NULL, &to, &f->e), 0);
    assert_int_equal(f->lists, SCHED_CPUS);
}

static void put(struct fixture *f, int64_t time, uint8_t cpu, uint32_t old_thread,
                uint32_t new_thread, int8_t reason)
{
    struct sched_switch sw = {time, old_thread, new_thread, cpu, reason, (int8_t)(reason + 1)};
    assert_int_equal(sched_switch(&f->s, &sw, &f->e), 0);
}

static void assert_run(const struct sched_run *r, int64_t wakeup, int64_t start, int64_t end,
                       uint8_t cpu, uint8_t wakeup_cpu, int8_t reason)
{
    assert_int_equal(r->wakeup, wakeup);
    assert_int_equal(r->start, start);
    assert_int_equal(r->end, end);
    assert_int_equal(r->cpu, cpu);
    assert_int_equal(r->wakeup_cpu, wakeup_cpu);
    assert_int_equal(r->reason, reason);
}

static void in_and_out_make_a_stretch(void **state)
{
    struct fixture f;
    (void)state;
    setup(&f, 1 << 20);
    put(&f, 50, 3, 7, 0, 5);  /* it ran before: nothing to end */
    put(&f, 100, 3, 0, 7, 0); /* no wakeup known: woken when it starts */
    put(&f, 130, 3, 7, 8, 5);
    put(&f, 200, 2, 0, 7, 0); /* on another processor */
    walk_threads(&f);
    assert_int_equal(f.lists, 2);
    assert_int_equal(f.counts[0], 2);
    assert_run(&f.runs[0], 100, 100, 130, 3, 3, 5);
    assert_int_equal(f.runs[0].state, 6);
    assert_run(&f.runs[1], 200, 200, -1, 2, 2, -1);
    assert_run(&f.runs[2], 130, 130, -1, 3, 3, -1);
    const struct sched_thread *t = &f.s.threads.at[0];
    assert_true(t->totalled);
    assert_int_equal(t->running_time, 30);
    assert_int_equal(t->running_regions, 1);
    assert_int_equal(t->migrations, 1);
    assert_false(f.s.threads.at[1].totalled);
    walk_cpus(&f);
    assert_int_equal(f.counts[3], 2);
    assert_int_equal(f.counts[2], 1);
    assert_int_equal(sched_cpu_runs(&f.s), 3);
    assert_int_equal(f.runs[0].start, 200);
    assert_int_equal(f.s.externals.at[f.runs[0].thread], 7);
    assert_int_equal(f.runs[1].end, 130);
    assert_int_equal(f.s.externals.at[f.runs[2].thread], 8);
    assert_int_equal(f.s.externals.at[0], 0);
    assert_non_null(sched_name(&f.s, 7));
    assert_null(sched_name(&f.s, 9));
    teardown(&f);
}

static void a_wakeup_begins_a_stretch(void **state)
{
    struct fixture f;
    (void)state;
    setup(&f, 1 << 20);
    put(&f, 10, 1, 0, 7, 0);
    put(&f, 20, 1, 7, 0, 2);
    assert_int_equal(sched_wakeup(&f.s, 25, 7, true, 4, &f.e), 0);
    assert_int_equal(f.s.threads.at[0].last.reason, SCHED_REASON_WAKEUP);
    put(&f, 30, 2, 0, 7, 0);
    walk_threads(&f);
    assert_int_equal(f.n, 2);
    assert_run(&f.runs[1], 25, 30, -1, 2, 4, -1);
    assert_int_equal(f.s.threads.at[0].migrations, 1);
    teardown(&f);
}

static void a_wakeup_while_running_counts_for_the_next_stretch(void **state)
{
    (void)state;
    for (int on_cpu = 0; on_cpu < 2; on_cpu++) {
        struct fixture f;
        setup(&f, 1 << 20);
        put(&f, 10, 1, 0, 7, 0);
        assert_int_equal(sched_wakeup(&f.s, 15, 7, on_cpu, 6, &f.e), 0);
        put(&f, 20, 1, 7, 0, 2);
        put(&f, 30, 1, 0, 7, 0);
        walk_threads(&f);
        assert_int_equal(f.n, 2);
        assert_run(&f.runs[1], on_cpu ? 15 : 30, 30, -1, 1, on_cpu ? 6 : 1, -1);
        teardown(&f);
    }
}

static void a_fiber_runs_on_threads(void **state)
{
    struct fixture f;
    const uint64_t a = UINT64_C(1) << 32, b = a + 1;
    (void)state;
    setup(&f, 1 << 20);
    sched_fiber_leave(&f.s, 5, 7); /* nothing there */
    assert_int_equal(sched_fiber_enter(&f.s, 10, a, 7, 3, &f.e), 0);
    assert_int_equal(sched_fiber_enter(&f.s, 20, b, 7, 3, &f.e), 0); /* ends a */
    sched_fiber_leave(&f.s, 30, 7);
    sched_fiber_leave(&f.s, 31, 7);
    assert_int_equal(sched_fiber_enter(&f.s, 40, a, 8, 4, &f.e), 0);
    walk_threads(&f);
    assert_int_equal(f.n, 3);
    assert_run(&f.runs[0], 10, 10, 20, 0, 0, SCHED_REASON_FIBER);
    assert_int_equal(f.runs[0].thread, 3);
    assert_run(&f.runs[1], 40, 40, -1, 0, 0, SCHED_REASON_FIBER);
    assert_int_equal(f.runs[1].thread, 4);
    assert_run(&f.runs[2], 20, 20, 30, 0, 0, SCHED_REASON_FIBER);
    for (size_t i = 0; i < f.s.threads.len; i++)
        assert_false(f.s.threads.at[i].totalled);
    teardown(&f);
}

static uint64_t on_cpu(const struct fixture *f, size_t run)
{
    return f->s.externals.at[f->runs[run].thread];
}

static void a_new_part_begins_with_what_runs(void **state)
{
    struct fixture f;
    (void)state;
    setup(&f, 1 << 20);
    put(&f, 10, 0, 0, 7, 0);
    put(&f, 15, 3, 0, 9, 0);
    put(&f, 20, 0, 7, 8, 1);
    put(&f, 25, 1, 0, 6, 0);
    put(&f, 30, 1, 6, 0, 0);
    sched_carry(&f.s);
    assert_int_equal(f.s.threads.len, 2); /* the others do not run */
    assert_int_equal(f.s.externals.len, 3);
    walk_threads(&f);
    assert_int_equal(f.s.threads.at[0].id, 9);
    assert_int_equal(f.s.threads.at[1].id, 8);
    assert_int_equal(f.counts[1], 1);
    assert_run(&f.runs[1], 0, 0, -1, 0, 0, -1);
    assert_false(f.s.threads.at[1].totalled);
    walk_cpus(&f);
    assert_int_equal(f.counts[0], 1);
    assert_int_equal(f.counts[1], 0);
    assert_int_equal(f.counts[3], 1);
    assert_int_equal(f.runs[0].start, 0);
    assert_int_equal(on_cpu(&f, 0), 8);
    assert_int_equal(on_cpu(&f, 1), 9);
    assert_non_null(sched_name(&f.s, 7));
    put(&f, 5, 0, 8, 7, 1);
    walk_threads(&f);
    assert_run(&f.runs[1], 0, 0, 5, 0, 0, 1);
    assert_int_equal(f.s.threads.at[2].id, 7);
    walk_cpus(&f);
    assert_int_equal(on_cpu(&f, 1), 7);
    teardown(&f);
}

/* Far more threads than have a place, but never in one part. */
static void parts_have_room_for_further_threads(void **state)
{
    struct fixture f;
    unsigned parts = 1;
    (void)state;
    setup(&f, 1 << 20);
    f.s.limit = 1000;
    for (uint32_t i = 1; i <= 20000; i++) {
        put(&f, i, i % 4, i < 5 ? 0 : i - 4, i, 0);
        if (!sched_is_full_to(&f.s, 95))
            continue;
        assert_int_equal(f.s.overflow, 0);
        sched_carry(&f.s);
        assert_int_equal(f.s.threads.len, 4);
        assert_int_equal(f.s.externals.len, 5);
        assert_int_equal(f.s.thread_numbers.count, 4);
        assert_int_equal(f.s.external_numbers.count, 4);
        parts++;
    }
    assert_int_equal(f.s.overflow, 0);
    assert_int_equal(parts, 1 + 20000 / (950 - 5));
    assert_non_null(sched_name(&f.s, 1));
    walk_cpus(&f);
    for (unsigned cpu = 0; cpu < 4; cpu++)
        assert_true(f.counts[cpu] > 0);
    assert_int_equal(on_cpu(&f, f.n - 1), 20000 - 1); /* 4k + 3 */
    teardown(&f);
}

static void threads_beyond_the_limit_are_counted(void **state)
{
    struct fixture f;
    (void)state;
    setup(&f, 1 << 20);
    for (uint32_t i = 1; i <= SCHED_THREADS_MAX + 10; i++)
        put(&f, i, 0, i - 1, i, 0);
    assert_int_equal(f.s.threads.len, SCHED_THREADS_MAX);
    assert_int_equal(f.s.externals.len, SCHED_THREADS_MAX);
    /* Ten threads; eleven external numbers, as 0 takes one. */
    assert_int_equal(f.s.overflow, 10 + 11);
    for (uint32_t i = 1; i <= SCHED_NAMES_MAX + 10; i++) {
        assert_int_equal(sched_tid_to_pid(&f.s, i, i + 1, &f.e), 0);
        assert_int_equal(sched_tid_to_pid(&f.s, i, i + 2, &f.e), 0);
    }
    assert_int_equal(f.s.pids.count, SCHED_NAMES_MAX);
    assert_int_equal(*map_find(&f.s.pids, 5), 6); /* the first answer stands */
    assert_int_equal(f.s.overflow, 10 + 11 + 20);
    teardown(&f);
}

/* ---- a model that keeps everything in arrays */

#define THREADS 9u
#define CPUS 4u

struct model_list {
    struct sched_run *runs;
    size_t n;
};

static void model_push(struct model_list *l, const struct sched_run *run)
{
    if ((l->n & (l->n - 1)) == 0) { /* doubled: sanitizers copy at each step */
        l->runs = realloc(l->runs, (l->n ? l->n * 2 : 1) * sizeof *run);
        assert_non_null(l->runs);
    }
    l->runs[l->n++] = *run;
}

static void model_switch(struct model_list *threads, struct model_list *cpus, int64_t time,
                         unsigned cpu, unsigned old_thread, unsigned new_thread, int8_t reason)
{
    if (old_thread && threads[old_thread].n) {
        struct sched_run *r = &threads[old_thread].runs[threads[old_thread].n - 1];
        r->end = time;
        r->reason = reason;
        r->state = (int8_t)(reason + 1);
    }
    if (old_thread && cpus[cpu].n)
        cpus[cpu].runs[cpus[cpu].n - 1].end = time;
    if (!new_thread)
        return;
    struct model_list *l = &threads[new_thread];
    if (l->n == 0 || l->runs[l->n - 1].reason != SCHED_REASON_WAKEUP) {
        struct sched_run fresh = {.wakeup = time, .wakeup_cpu = (uint8_t)cpu};
        model_push(l, &fresh);
    }
    struct sched_run *r = &l->runs[l->n - 1];
    *r = (struct sched_run){.wakeup = r->wakeup,
                            .start = time,
                            .end = -1,
                            .cpu = (uint8_t)cpu,
                            .wakeup_cpu = r->wakeup_cpu,
                            .reason = -1,
                            .state = -1};
    struct sched_run on_cpu = {.start = time, .end = -1, .thread = (uint16_t)new_thread};
    model_push(&cpus[cpu], &on_cpu);
}

static void model_wakeup(struct model_list *l, int64_t time, unsigned cpu)
{
    if (l->n && l->runs[l->n - 1].end == -1)
        return;
    struct sched_run r = {.wakeup = time,
                          .start = time,
                          .end = -1,
                          .wakeup_cpu = (uint8_t)cpu,
                          .reason = SCHED_REASON_WAKEUP,
                          .state = -1};
    model_push(l, &r);
}

static void compare_threads(struct fixture *f, const struct model_list *threads)
{
    size_t at = 0;
    walk_threads(f);
    for (size_t i = 0; i < f->lists; i++) {
        const struct model_list *l = &threads[f->s.threads.at[i].id];
        assert_int_equal(f->counts[i], l->n);
        for (size_t k = 0; k < l->n; k++, at++) {
            const struct sched_run *want = &l->runs[k];
            assert_run(&f->runs[at], want->wakeup, want->start, want->end, want->cpu,
                       want->wakeup_cpu, want->reason);
            assert_int_equal(f->runs[at].state, want->state);
        }
    }
    assert_int_equal(at, f->n);
}

static void compare_cpus(struct fixture *f, const struct model_list *cpus)
{
    size_t at = 0;
    walk_cpus(f);
    for (unsigned i = 0; i < CPUS; i++) {
        assert_int_equal(f->counts[i], cpus[i].n);
        for (size_t k = 0; k < cpus[i].n; k++, at++) {
            assert_int_equal(f->runs[at].start, cpus[i].runs[k].start);
            assert_int_equal(f->runs[at].end, cpus[i].runs[k].end);
            assert_int_equal(f->s.externals.at[f->runs[at].thread], cpus[i].runs[k].thread);
        }
    }
    assert_int_equal(at, f->n);
}

/* Any order of events, also impossible ones, with chunks packed and on disk. */
static void random_events_match_a_model(void **state)
{
    struct fixture f;
    struct model_list threads[THREADS] = {0}, cpus[CPUS] = {0};
    uint64_t seed = 12345;
    int64_t time = 0;
    (void)state;
    setup(&f, 1 << 16);
    for (unsigned i = 0; i < 200000; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        unsigned r = (unsigned)(seed >> 33);
        unsigned cpu = r % CPUS, a = r / 4 % THREADS, b = r / 64 % THREADS;
        time += r % 1000;
        if (r >> 28 & 1 && a) {
            assert_int_equal(sched_wakeup(&f.s, time, a, false, (uint8_t)cpu, &f.e), 0);
            model_wakeup(&threads[a], time, cpu);
        } else {
            put(&f, time, (uint8_t)cpu, a, b, (int8_t)(r >> 20 & 63));
            model_switch(threads, cpus, time, cpu, a, b, (int8_t)(r >> 20 & 63));
        }
    }
    assert_true(f.s.disorder > 0);
    compare_threads(&f, threads);
    compare_cpus(&f, cpus);
    for (unsigned i = 0; i < THREADS; i++)
        free(threads[i].runs);
    for (unsigned i = 0; i < CPUS; i++)
        free(cpus[i].runs);
    teardown(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_and_out_make_a_stretch),
        cmocka_unit_test(a_wakeup_begins_a_stretch),
        cmocka_unit_test(a_wakeup_while_running_counts_for_the_next_stretch),
        cmocka_unit_test(a_fiber_runs_on_threads),
        cmocka_unit_test(a_new_part_begins_with_what_runs),
        cmocka_unit_test(parts_have_room_for_further_threads),
        cmocka_unit_test(threads_beyond_the_limit_are_counted),
        cmocka_unit_test(random_events_match_a_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
