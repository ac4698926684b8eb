#include "trace/store/sched.h"

#include <stdlib.h>
#include <string.h>

#include "trace/store/spill.h"

/* Records of a sort kept in memory. */
#define SORTED_IN_MEMORY ((size_t)1 << 18)

/* ---- stored form of a finished run */

/* Wakeup and end are stored as distances from the start, which take few bits. */
struct stored_run {
    int64_t start;
    uint64_t waited; /* start - wakeup */
    uint64_t ran;    /* 1 + end - start; 0: never ended */
    uint32_t list;   /* index of the thread */
    uint16_t thread;
    uint8_t cpu;
    uint8_t wakeup_cpu;
    int8_t reason;
    int8_t state;
} __attribute__((packed));

static const struct pack_layout run_layout = {
    .element = sizeof(struct stored_run),
    .count = 8,
    .fields = {{0, 8, PACK_STEP},
               {8, 8, PACK_OFFSET},
               {16, 8, PACK_OFFSET},
               {24, 4, PACK_OFFSET},
               {28, 2, PACK_OFFSET},
               {30, 1, PACK_OFFSET},
               {31, 1, PACK_OFFSET},
               {32, 2, PACK_OFFSET}}, /* reason and state */
};

struct stored_cpu_run {
    int64_t start;
    uint64_t ran; /* as above */
    uint16_t thread;
    uint8_t cpu;
} __attribute__((packed));

static const struct pack_layout cpu_run_layout = {
    .element = sizeof(struct stored_cpu_run),
    .count = 4,
    .fields = {{0, 8, PACK_STEP}, {8, 8, PACK_OFFSET}, {16, 2, PACK_OFFSET}, {18, 1, PACK_OFFSET}},
};

static uint64_t ran(int64_t start, int64_t end)
{
    return end == -1 ? 0 : (uint64_t)(end - start) + 1;
}

static int64_t end_of(int64_t start, uint64_t run)
{
    return run ? start + (int64_t)(run - 1) : -1;
}

/* ---- initialisation and release */

void sched_init(struct sched *s, struct spool *spool)
{
    *s = (struct sched){.limit = SCHED_THREADS_MAX};
    column_init(&s->runs, spool, &run_layout, false);
    column_init(&s->cpu_runs, spool, &cpu_run_layout, false);
}

void sched_release(struct sched *s)
{
    vec_release(&s->threads);
    map_release(&s->thread_numbers);
    column_release(&s->runs);
    free(s->cpus);
    column_release(&s->cpu_runs);
    vec_release(&s->externals);
    map_release(&s->external_numbers);
    vec_release(&s->names);
    map_release(&s->name_numbers);
    map_release(&s->pids);
    map_release(&s->fibers);
    *s = (struct sched){0};
}

/* An open run continues from time 0; everything before is dropped. */
static void carry_thread(struct sched_thread *t)
{
    bool open = t->count && t->last.end == -1;
    t->previous_wakeup = t->pending_wakeup = t->running_time = 0;
    t->running_regions = t->migrations = 0;
    t->totalled = false;
    t->count = open;
    if (open)
        t->last.wakeup = t->last.start = 0;
}

/* A thread that does not run has no state: it gets an entry again when it runs. */
static void carry_threads(struct sched *s)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->threads.len; i++) {
        struct sched_thread *t = &s->threads.at[i];
        carry_thread(t);
        if (t->count == 0) {
            map_remove(&s->thread_numbers, t->id);
            continue;
        }
        *map_find(&s->thread_numbers, t->id) = kept;
        s->threads.at[kept++] = *t;
    }
    s->threads.len = kept;
}

/* Of the threads that CPUs ran, keeps those that run now, and number 0. */
static void carry_cpus(struct sched *s)
{
    uint8_t needed[SCHED_THREADS_MAX / 8] = {1};
    uint16_t places[SCHED_CPUS] = {0};
    size_t kept = 0, cpus = s->cpus ? SCHED_CPUS : 0;
    for (size_t i = 0; i < cpus; i++) {
        struct sched_cpu *cpu = &s->cpus[i];
        cpu->count = cpu->count && cpu->end == -1;
        cpu->start = 0;
        if (cpu->count)
            needed[cpu->thread / 8] |= (uint8_t)(1u << cpu->thread % 8);
    }
    for (size_t number = 0; number < s->externals.len; number++) {
        uint64_t id = s->externals.at[number];
        if (!(needed[number / 8] >> number % 8 & 1)) {
            map_remove(&s->external_numbers, id);
            continue;
        }
        for (size_t i = 0; i < cpus; i++)
            places[i] = s->cpus[i].thread == number ? (uint16_t)kept : places[i];
        if (number)
            *map_find(&s->external_numbers, id) = kept;
        s->externals.at[kept++] = id;
    }
    s->externals.len = kept;
    for (size_t i = 0; i < cpus; i++)
        s->cpus[i].thread = places[i];
}

void sched_carry(struct sched *s)
{
    carry_threads(s);
    carry_cpus(s);
    column_clear(&s->runs);
    column_clear(&s->cpu_runs);
    s->overflow = s->disorder = 0;
    s->carried = (uint32_t)(s->threads.len > s->externals.len ? s->threads.len : s->externals.len);
}

bool sched_is_full_to(const struct sched *s, unsigned percent)
{
    size_t len = s->threads.len > s->externals.len ? s->threads.len : s->externals.len;
    return len >= (uint64_t)s->limit * percent / 100 && len - s->carried >= s->limit / 10;
}

/* ---- threads */

static struct sched_thread *find_thread(struct sched *s, uint64_t id)
{
    const uint64_t *number = map_find(&s->thread_numbers, id);
    return number ? &s->threads.at[*number] : NULL;
}

/* *t is NULL, and that is counted, when there are too many threads. */
static int thread_at(struct sched *s, uint64_t id, struct sched_thread **t, struct err *e)
{
    *t = find_thread(s, id);
    if (*t)
        return 0;
    if (s->threads.len >= s->limit) {
        s->overflow++;
        return 0;
    }
    uint64_t *number = map_add(&s->thread_numbers, id, NULL);
    if (!number || !vec_push(&s->threads, (struct sched_thread){.id = id}))
        return err_no_memory(e, "context switches");
    *number = s->threads.len - 1;
    *t = &s->threads.at[*number];
    return 0;
}

/* Begins a run and finishes the previous one. */
static int push_run(struct sched *s, struct sched_thread *t, const struct sched_run *run,
                    struct err *e)
{
    if (t->count) {
        const struct sched_run *last = &t->last;
        struct stored_run *r = column_append(&s->runs, e);
        if (!r)
            return -1;
        *r = (struct stored_run){.start = last->start,
                                 .waited = (uint64_t)(last->start - last->wakeup),
                                 .ran = ran(last->start, last->end),
                                 .list = (uint32_t)(t - s->threads.at),
                                 .thread = last->thread,
                                 .cpu = last->cpu,
                                 .wakeup_cpu = last->wakeup_cpu,
                                 .reason = last->reason,
                                 .state = last->state};
        t->previous_wakeup = last->wakeup;
        t->previous_cpu = last->cpu;
    }
    t->last = *run;
    t->count++;
    return 0;
}

/*
 * The external number of a thread: 16 bits; the last one is shared by all threads beyond the limit.
 */
static int external_number(struct sched *s, uint64_t id, uint16_t *number, struct err *e)
{
    if (s->externals.len == 0 && !vec_push(&s->externals, 0))
        return err_no_memory(e, "context switches");
    uint64_t *known = id ? map_find(&s->external_numbers, id) : NULL;
    *number = known ? (uint16_t)*known : 0;
    if (known || id == 0)
        return 0;
    if (s->externals.len >= s->limit) {
        s->overflow++;
        *number = (uint16_t)(s->externals.len - 1);
        return 0;
    }
    known = map_add(&s->external_numbers, id, NULL);
    if (!known || !vec_push(&s->externals, id))
        return err_no_memory(e, "context switches");
    *known = *number = (uint16_t)(s->externals.len - 1);
    return 0;
}

static int note_name(struct sched *s, uint64_t id, struct err *e)
{
    if (s->names.len >= SCHED_NAMES_MAX || map_find(&s->name_numbers, id))
        return 0;
    uint64_t *number = map_add(&s->name_numbers, id, NULL);
    if (!number || !vec_push(&s->names, (struct sched_name){.id = id}))
        return err_no_memory(e, "context switches");
    *number = s->names.len - 1;
    return 0;
}

struct sched_name *sched_name(struct sched *s, uint64_t id)
{
    const uint64_t *number = map_find(&s->name_numbers, id);
    return number ? &s->names.at[*number] : NULL;
}

int sched_tid_to_pid(struct sched *s, uint64_t tid, uint64_t pid, struct err *e)
{
    bool fresh;
    if (s->pids.count >= SCHED_NAMES_MAX && !map_find(&s->pids, tid)) {
        s->overflow++;
        return 0;
    }
    uint64_t *at = map_add(&s->pids, tid, &fresh);
    if (!at)
        return err_no_memory(e, "context switches");
    if (fresh)
        *at = pid;
    return 0;
}

/* ---- switches */

static void thread_out(struct sched *s, const struct sched_switch *sw)
{
    struct sched_thread *t = find_thread(s, sw->old_thread);
    if (!t || t->count == 0)
        return; /* it started running before the capture began */
    s->disorder += t->last.end != -1;
    t->last.end = sw->time;
    t->last.reason = sw->reason;
    t->last.state = sw->state;
    t->totalled = true;
    t->running_regions++;
    t->running_time += sw->time - t->last.start;
}

/* A wakeup that arrived while the thread still ran belongs to its next run, if it fits. */
static void take_pending_wakeup(struct sched_thread *t)
{
    if (t->pending_wakeup == 0 || t->count < 2 || t->pending_wakeup < t->previous_wakeup ||
        t->pending_wakeup > t->last.start)
        return;
    t->last.wakeup = t->pending_wakeup;
    t->last.wakeup_cpu = t->pending_cpu;
    t->pending_wakeup = 0;
}

static int thread_in(struct sched *s, const struct sched_switch *sw, struct err *e)
{
    struct sched_thread *t;
    if (thread_at(s, sw->new_thread, &t, e) != 0)
        return -1;
    if (!t)
        return 0;
    bool woken = t->count && t->last.reason == SCHED_REASON_WAKEUP;
    bool moved;
    if (woken) {
        moved = t->count > 1 && t->previous_cpu != sw->cpu;
    } else {
        moved = t->count && t->last.cpu != sw->cpu;
        s->disorder += t->count && t->last.end == -1;
        struct sched_run run = {
            .wakeup = sw->time, .start = sw->time, .end = -1, .wakeup_cpu = sw->cpu};
        if (push_run(s, t, &run, e) != 0)
            return -1;
        take_pending_wakeup(t);
    }
    t->last.start = sw->time;
    t->last.end = -1;
    t->last.cpu = sw->cpu;
    t->last.reason = SCHED_REASON_NONE;
    t->last.state = SCHED_REASON_NONE;
    t->migrations += moved;
    t->totalled |= moved;
    return 0;
}

static int cpu_in(struct sched *s, const struct sched_switch *sw, struct err *e)
{
    struct sched_cpu *c = &s->cpus[sw->cpu];
    uint16_t thread;
    if (external_number(s, sw->new_thread, &thread, e) != 0)
        return -1;
    if (c->count) {
        struct stored_cpu_run *r = column_append(&s->cpu_runs, e);
        if (!r)
            return -1;
        *r = (struct stored_cpu_run){c->start, ran(c->start, c->end), c->thread, sw->cpu};
    }
    *c = (struct sched_cpu){sw->time, -1, thread, c->count + 1};
    return 0;
}

int sched_switch(struct sched *s, const struct sched_switch *sw, struct err *e)
{
    if (!s->cpus && !(s->cpus = calloc(SCHED_CPUS, sizeof *s->cpus)))
        return err_no_memory(e, "context switches");
    if (sw->old_thread) {
        thread_out(s, sw);
        if (s->cpus[sw->cpu].count)
            s->cpus[sw->cpu].end = sw->time;
    }
    if (sw->new_thread == 0)
        return 0;
    return thread_in(s, sw, e) != 0 || cpu_in(s, sw, e) != 0 || note_name(s, sw->new_thread, e) != 0
               ? -1
               : 0;
}

int sched_wakeup(struct sched *s, int64_t time, uint32_t thread, bool on_cpu, uint8_t cpu,
                 struct err *e)
{
    struct sched_thread *t;
    if (thread_at(s, thread, &t, e) != 0)
        return -1;
    if (!t)
        return 0;
    if (t->count && t->last.end < 0) { /* also when it ended before the clock began */
        if (on_cpu) {
            t->pending_wakeup = time;
            t->pending_cpu = cpu;
        }
        return 0;
    }
    struct sched_run run = {.wakeup = time,
                            .start = time,
                            .end = -1,
                            .wakeup_cpu = cpu,
                            .reason = SCHED_REASON_WAKEUP,
                            .state = SCHED_REASON_NONE};
    return push_run(s, t, &run, e);
}

/* ---- fibers */

static void end_fiber(struct sched *s, uint64_t fiber, int64_t time)
{
    struct sched_thread *t = find_thread(s, fiber);
    if (t && t->count)
        t->last.end = time;
}

int sched_fiber_enter(struct sched *s, int64_t time, uint64_t fiber, uint64_t thread,
                      uint16_t number, struct err *e)
{
    uint64_t *running = map_add(&s->fibers, thread, NULL);
    struct sched_thread *t;
    if (!running)
        return err_no_memory(e, "context switches");
    if (*running)
        end_fiber(s, *running, time);
    *running = fiber;
    if (thread_at(s, fiber, &t, e) != 0)
        return -1;
    struct sched_run run = {.wakeup = time,
                            .start = time,
                            .end = -1,
                            .thread = number,
                            .reason = SCHED_REASON_FIBER,
                            .state = SCHED_REASON_NONE};
    return t ? push_run(s, t, &run, e) : 0;
}

void sched_fiber_leave(struct sched *s, int64_t time, uint64_t thread)
{
    uint64_t *running = map_find(&s->fibers, thread);
    if (!running || *running == 0)
        return;
    end_fiber(s, *running, time);
    *running = 0;
}

/* ---- reading, list by list */

struct sorted_run {
    int64_t list; /* sort key of the spill */
    struct sched_run run;
};

struct walk {
    const struct sched_lists *to;
    const uint64_t *counts; /* by list */
    uint32_t next;          /* next list to begin */
};

/* Begins all lists up to `list`: those in between are empty. */
static int walk_begin(struct walk *w, uint32_t list, struct err *e)
{
    for (; w->next <= list; w->next++) {
        if (w->to->begin(w->to->ctx, w->next, w->counts[w->next], e) != 0)
            return -1;
    }
    return 0;
}

static int walk_put(void *ctx, const void *recs, size_t n, struct err *e)
{
    struct walk *w = ctx;
    const struct sorted_run *r = recs;
    for (size_t i = 0; i < n; i++) {
        if (walk_begin(w, (uint32_t)r[i].list, e) != 0 || w->to->run(w->to->ctx, &r[i].run, e) != 0)
            return -1;
    }
    return 0;
}

/* Adds a column's runs of the lists in `places` (UINT32_MAX: skip). */
static int add_runs(struct sched *s, struct spill *sp, const uint32_t *places, struct err *e)
{
    struct column_walk w = column_walk(&s->runs);
    int status = 0;
    for (const struct stored_run *r; (r = column_walk_next(&w, &status, e));) {
        if (places[r->list] == UINT32_MAX)
            continue;
        struct sorted_run out = {.list = places[r->list],
                                 .run = {.wakeup = r->start - (int64_t)r->waited,
                                         .start = r->start,
                                         .end = end_of(r->start, r->ran),
                                         .thread = r->thread,
                                         .cpu = r->cpu,
                                         .wakeup_cpu = r->wakeup_cpu,
                                         .reason = r->reason,
                                         .state = r->state}};
        status = spill_add(sp, &out, 1, e);
    }
    return status;
}

static int drain(struct spill *sp, struct walk *w, uint32_t lists, struct err *e)
{
    if (spill_drain(sp, walk_put, w, e) != 0)
        return -1;
    return lists ? walk_begin(w, lists - 1, e) : 0;
}

int sched_walk_threads(struct sched *s, const uint32_t *order, size_t n, const char *dir,
                       const struct sched_lists *to, struct err *e)
{
    struct spill sp;
    uint32_t *places = malloc((s->threads.len + 1) * sizeof *places);
    uint64_t *counts = malloc((n + 1) * sizeof *counts);
    struct walk w = {.to = to, .counts = counts};
    int status = places && counts ? 0 : err_no_memory(e, "context switches");
    spill_init(&sp, sizeof(struct sorted_run), SORTED_IN_MEMORY, dir);
    for (size_t i = 0; status == 0 && i < s->threads.len; i++)
        places[i] = UINT32_MAX;
    for (size_t i = 0; status == 0 && i < n; i++) {
        places[order[i]] = (uint32_t)i;
        counts[i] = s->threads.at[order[i]].count;
    }
    if (status == 0)
        status = add_runs(s, &sp, places, e);
    for (size_t i = 0; status == 0 && i < n; i++) {
        struct sorted_run out = {.list = (int64_t)i, .run = s->threads.at[order[i]].last};
        if (counts[i])
            status = spill_add(&sp, &out, 1, e);
    }
    if (status == 0)
        status = drain(&sp, &w, (uint32_t)n, e);
    spill_release(&sp);
    free(counts);
    free(places);
    return status;
}

static int add_cpu_runs(struct sched *s, struct spill *sp, struct err *e)
{
    struct column_walk w = column_walk(&s->cpu_runs);
    int status = 0;
    for (const struct stored_cpu_run *r; (r = column_walk_next(&w, &status, e));) {
        struct sorted_run out = {
            .list = r->cpu,
            .run = {.start = r->start, .end = end_of(r->start, r->ran), .thread = r->thread}};
        status = spill_add(sp, &out, 1, e);
    }
    return status;
}

int sched_walk_cpus(struct sched *s, const char *dir, const struct sched_lists *to, struct err *e)
{
    uint64_t counts[SCHED_CPUS] = {0};
    struct walk w = {.to = to, .counts = counts};
    struct spill sp;
    spill_init(&sp, sizeof(struct sorted_run), SORTED_IN_MEMORY, dir);
    int status = add_cpu_runs(s, &sp, e);
    for (unsigned i = 0; status == 0 && s->cpus && i < SCHED_CPUS; i++) {
        const struct sched_cpu *c = &s->cpus[i];
        struct sorted_run out = {.list = i,
                                 .run = {.start = c->start, .end = c->end, .thread = c->thread}};
        counts[i] = c->count;
        if (c->count)
            status = spill_add(&sp, &out, 1, e);
    }
    if (status == 0)
        status = drain(&sp, &w, SCHED_CPUS, e);
    spill_release(&sp);
    return status;
}

uint64_t sched_cpu_runs(const struct sched *s)
{
    uint64_t n = 0;
    for (unsigned i = 0; s->cpus && i < SCHED_CPUS; i++)
        n += s->cpus[i].count;
    return n;
}
