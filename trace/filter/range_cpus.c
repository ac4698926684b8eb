/*
 * Each thread's CPU time in a trace, recomputed for a range from the switches of all CPUs, as the
 * official server does (`ProcessContextSwitch` in server/TracyWorker.cpp @ v0.14.0).
 */

#include "trace/filter/range_lists.h"

/* Runs sorted in memory at once: 4 MiB. */
#define RUNS_MAX ((size_t)256 << 10)

/* A thread's run on a CPU. */
struct run {
    int64_t start; /* first, because spill sorts by it */
    uint16_t thread;
    uint8_t cpu;
};

void range_cpus_init(struct range_cpus *c, const char *dir)
{
    *c = (struct range_cpus){0};
    spill_init(&c->runs, sizeof(struct run), RUNS_MAX, dir);
}

void range_cpus_release(struct range_cpus *c)
{
    map_release(&c->numbers);
    vec_release(&c->totals);
    spill_release(&c->runs);
}

int range_add_cpu_thread(struct range *r, uint64_t id, struct err *e)
{
    struct range_cpus *c = &r->cpus;
    bool fresh;
    uint64_t *number = map_add(&c->numbers, id, &fresh);
    if (!number || !vec_push(&c->totals, (struct cpu_totals){.cpu = -1}))
        return err_no_memory(e, "threads of a range");
    if (fresh)
        *number = c->totals.len - 1;
    return 0;
}

/* Official servers count completed runs. A run may lie partly in the range. */
static void count_run(const struct range *r, struct cpu_totals *t, const struct rec_cpu_switch *s)
{
    int64_t from = s->start > r->options.begin ? s->start : r->options.begin;
    int64_t to = s->end < r->options.end ? s->end : r->options.end;
    if (s->end == -1)
        return;
    t->all_regions++;
    t->all_running = (int64_t)((uint64_t)t->all_running + (uint64_t)s->end - (uint64_t)s->start);
    if (!range_overlaps(r, s->start, s->end))
        return;
    t->regions++;
    t->running = (int64_t)((uint64_t)t->running + (uint64_t)(to > from ? to - from : 0));
}

static int count_switch(struct range *r, const struct rec_cpu_switch *s, struct err *e)
{
    struct range_cpus *c = &r->cpus;
    bool kept = range_overlaps(r, s->start, s->end);
    struct run run = {s->start, s->thread, (uint8_t)(c->lists - 1)};
    r->list.kept += kept;
    if (s->thread >= c->totals.len)
        return 0;
    count_run(r, &c->totals.at[s->thread], s);
    return kept ? spill_add(&c->runs, &run, 1, e) : 0;
}

int range_count_cpu_switches(struct range *r, const struct rec_cpu_switch *switches, size_t n,
                             struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        if (count_switch(r, &switches[i], e) != 0)
            return -1;
    }
    return 0;
}

static int count_migrations(void *ctx, const void *recs, size_t n, struct err *e)
{
    struct range_cpus *c = ctx;
    const struct run *runs = recs;
    (void)e;
    for (size_t i = 0; i < n; i++) {
        struct cpu_totals *t = &c->totals.at[runs[i].thread];
        t->migrations += t->cpu >= 0 && t->cpu != runs[i].cpu;
        t->cpu = runs[i].cpu;
    }
    return 0;
}

int range_sum_cpu_threads(struct range *r, struct err *e)
{
    int status = spill_drain(&r->cpus.runs, count_migrations, &r->cpus, e);
    spill_release(&r->cpus.runs);
    return status;
}

/*
 * False when the thread did not run in the range. If the switches do not add up to the thread's
 * total in the trace, some are missing, and the record stays unchanged.
 */
static bool total(const struct range *r, struct rec_cpu_thread *thread)
{
    const struct range_cpus *c = &r->cpus;
    const uint64_t *number = map_find(&c->numbers, thread->tid);
    const struct cpu_totals *t = number ? &c->totals.at[*number] : NULL;
    if (!t || t->all_regions != thread->running_regions || t->all_running != thread->running_time)
        return true;
    thread->running_time = t->running;
    thread->running_regions = t->regions;
    thread->migrations = t->migrations;
    return t->regions > 0 || t->migrations > 0;
}

void range_count_cpu_threads(struct range *r, const struct rec_cpu_thread *threads, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct rec_cpu_thread thread = threads[i];
        r->totals[REC_CPU_THREAD] += total(r, &thread);
    }
}

int range_put_cpu_threads(struct range *r, const struct rec_cpu_thread *threads, size_t n,
                          struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        struct rec_cpu_thread thread = threads[i];
        if (total(r, &thread) && record_put(&r->next, REC_CPU_THREAD, &thread, 1, e) != 0)
            return -1;
    }
    return 0;
}
