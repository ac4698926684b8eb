/* Context switches, CPUs, threads of other processes. */

#include "trace/save/save_internal.h"

#include <stdlib.h>

/* Threads that only another part of the capture uses need no names in this file. */
static bool is_external(const struct sched *sched, const struct sched_name *n)
{
    return map_find(&sched->external_numbers, n->id) != NULL;
}

/* The file stores a thread's program and thread name as keys of strings. */
int save_external_names(struct saver *s)
{
    const struct sched *sched = &s->t->sched;
    uint64_t count = 0;
    for (size_t i = 0; i < sched->names.len; i++)
        count += is_external(sched, &sched->names.at[i]);
    if (put_count(s, REC_EXTERNAL_NAMES, count) != 0)
        return -1;
    for (size_t i = 0; i < sched->names.len; i++) {
        const struct sched_name *n = &sched->names.at[i];
        struct rec_external_name r = {n->id, n->program, n->thread};
        if (is_external(sched, n) && put(s, REC_EXTERNAL_NAME, &r) != 0)
            return -1;
    }
    return 0;
}

int save_external_threads(struct saver *s)
{
    const struct sched *sched = &s->t->sched;
    if (put_count(s, REC_EXTERNAL_THREADS, sched->externals.len) != 0)
        return -1;
    for (size_t i = 0; i < sched->externals.len; i++) {
        struct rec_id id = {sched->externals.at[i]};
        if (put(s, REC_EXTERNAL_THREAD, &id) != 0)
            return -1;
    }
    return 0;
}

/*
 * The official server leaves out threads without zones and samples; most belong to other processes.
 */
static bool is_kept(const struct trace *t, uint64_t id)
{
    const uint64_t *number = map_find(&t->threads.numbers, id);
    if (!number)
        return false;
    const struct zone_thread *zones = zones_of(&t->zones, (uint16_t)*number);
    return (zones && zones->begins.len) || samples_of(&t->samples, (uint16_t)*number).samples;
}

struct switch_saver {
    struct saver *s;
    const uint32_t *order;
};

static int begin_thread(void *ctx, uint32_t list, uint64_t count, struct err *e)
{
    const struct switch_saver *w = ctx;
    struct rec_id_count r = {w->s->t->sched.threads.at[w->order[list]].id, count};
    (void)e;
    return put(w->s, REC_CONTEXT_SWITCH_THREAD, &r);
}

static int put_switch(void *ctx, const struct sched_run *run, struct err *e)
{
    const struct switch_saver *w = ctx;
    const struct trace_threads *threads = &w->s->t->threads;
    struct rec_context_switch r = {.wakeup = run->wakeup,
                                   .start = run->start,
                                   .end = run->end,
                                   .cpu = run->cpu,
                                   .reason = run->reason,
                                   .state = run->state,
                                   .thread = threads->list.at[run->thread].id,
                                   .wakeup_cpu = run->wakeup_cpu};
    (void)e;
    return put(w->s, REC_CONTEXT_SWITCH, &r);
}

static int save_thread_switches(struct saver *s)
{
    struct sched *sched = &s->t->sched;
    uint32_t *order = malloc((sched->threads.len + 1) * sizeof *order);
    size_t n = 0;
    if (!order)
        return err_no_memory(s->e, "saving");
    for (size_t i = 0; i < sched->threads.len; i++) {
        if (is_kept(s->t, sched->threads.at[i].id))
            order[n++] = (uint32_t)i;
    }
    struct switch_saver w = {s, order};
    struct sched_lists to = {&w, begin_thread, put_switch};
    int status = put_count(s, REC_CONTEXT_SWITCH_THREADS, n);
    if (status == 0)
        status = sched_walk_threads(sched, order, n, s->t->spool.dir, &to, s->e);
    free(order);
    return status;
}

static int begin_cpu(void *ctx, uint32_t list, uint64_t count, struct err *e)
{
    (void)list;
    (void)e;
    return put_count(ctx, REC_CPU_SWITCH_LIST, count);
}

static int put_cpu_switch(void *ctx, const struct sched_run *run, struct err *e)
{
    struct rec_cpu_switch r = {run->start, run->end, run->thread};
    (void)e;
    return put(ctx, REC_CPU_SWITCH, &r);
}

static int save_cpu_switches(struct saver *s)
{
    struct sched_lists to = {s, begin_cpu, put_cpu_switch};
    if (put_count(s, REC_CPU_SWITCH_LISTS, sched_cpu_runs(&s->t->sched)) != 0)
        return -1;
    return sched_walk_cpus(&s->t->sched, s->t->spool.dir, &to, s->e);
}

static int save_cpu_threads(struct saver *s)
{
    const struct sched *sched = &s->t->sched;
    uint64_t n = 0;
    for (size_t i = 0; i < sched->threads.len; i++)
        n += sched->threads.at[i].totalled;
    if (put_count(s, REC_CPU_THREADS, n) != 0)
        return -1;
    for (size_t i = 0; i < sched->threads.len; i++) {
        const struct sched_thread *t = &sched->threads.at[i];
        struct rec_cpu_thread r = {t->id, t->running_time, t->running_regions, t->migrations};
        if (t->totalled && put(s, REC_CPU_THREAD, &r) != 0)
            return -1;
    }
    return 0;
}

int save_context_switches(struct saver *s)
{
    return save_thread_switches(s) != 0 || save_cpu_switches(s) != 0 ||
                   save_map(s, REC_TID_TO_PIDS, REC_TID_TO_PID, &s->t->sched.pids) != 0 ||
                   save_cpu_threads(s) != 0
               ? -1
               : 0;
}
