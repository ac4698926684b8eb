/* Figures by group, from those that analysis/figures/stream_figures.h counted by call stack. */

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "analysis/figures/stream_figures.h"
#include "base/saturate.h"

/* The number of chunks of the log from which a separate thread is faster. */
#define CHUNKS_FOR_A_THREAD 8u

/* A group's use during a part of the log, relative to its use at the start of the part. */
struct level {
    int64_t live;
    int64_t peak; /* without the nanosecond `tick` */
    uint64_t tick;
    uint64_t unused; /* padding: two of them are a cache line */
};

struct levels {
    struct pageable *pageable; /* of the arrays; NULL: the heap */
    size_t n;                  /* groups */
    const struct stream_grouping *of;
    struct level *early, *late; /* of two parts of the log, by group */
    struct counter *sums;       /* beside them */
    uint64_t *hashes;           /* beside them: group_hash */
    uint32_t *members;          /* beside them: call stacks */
    uint32_t *used;             /* groups of the current pool; the others have zeros */
    size_t used_count;
    bool shared; /* some group has several call stacks in the current pool */
};

static inline uint32_t group_of(const struct stream_grouping *g, uint32_t callstack)
{
    return callstack < g->group_count ? g->groups[callstack] : 0;
}

static int levels_init(struct levels *l, const struct stream_grouping *of,
                       struct pageable *pageable, struct err *e)
{
    uint32_t most = 0;
    for (size_t i = 0; i < of->group_count; i++)
        most = of->groups[i] > most ? of->groups[i] : most;
    size_t n = (size_t)most + 1;
    *l = (struct levels){.pageable = pageable, .n = n, .of = of};
    l->early = pageable_zeroed(pageable, n * sizeof *l->early);
    l->late = pageable_zeroed(pageable, n * sizeof *l->late);
    l->sums = pageable_zeroed(pageable, n * sizeof *l->sums);
    l->hashes = pageable_zeroed(pageable, n * sizeof *l->hashes);
    l->members = pageable_zeroed(pageable, n * sizeof *l->members);
    l->used = pageable_zeroed(pageable, n * sizeof *l->used);
    return l->early && l->late && l->sums && l->hashes && l->members && l->used
               ? 0
               : err_no_memory(e, "figures of groups");
}

static void levels_release(struct levels *l)
{
    pageable_free(l->pageable, l->early, l->n * sizeof *l->early);
    pageable_free(l->pageable, l->late, l->n * sizeof *l->late);
    pageable_free(l->pageable, l->sums, l->n * sizeof *l->sums);
    pageable_free(l->pageable, l->hashes, l->n * sizeof *l->hashes);
    pageable_free(l->pageable, l->members, l->n * sizeof *l->members);
    pageable_free(l->pageable, l->used, l->n * sizeof *l->used);
}

/*
 * Resets to a pool without blocks. A trace may have many pools and many groups, but few groups in
 * each pool.
 */
static void levels_clear(struct levels *l)
{
    l->shared = false;
    for (size_t i = 0; i < l->used_count; i++) {
        uint32_t group = l->used[i];
        l->early[group] = l->late[group] = (struct level){0};
        l->sums[group] = (struct counter){0};
        l->hashes[group] = 0;
        l->members[group] = 0;
    }
    l->used_count = 0;
}

/* ---- from the log: the peaks of groups of several call stacks */

/* A part of a pool's log, which starts at a new nanosecond. */
struct part {
    struct log_reader reader;
    uint64_t tick; /* nanoseconds with steps */
    struct levels *levels;
    size_t n;
    bool late;
    struct log_steps steps;
    int status;
    struct err err;
};

static uint64_t replay(const struct stream_grouping *of, struct level *levels,
                       const struct log_steps *s, uint64_t tick)
{
    for (uint32_t i = 0; i < s->n; i++) {
        struct level *g = &levels[group_of(of, s->what[i] >> 2)];
        int64_t size = (int64_t)s->size[i];
        tick += s->what[i] & LOG_LATER;
        int64_t held = g->tick != tick ? g->live : g->peak;
        g->peak = held > g->peak ? held : g->peak;
        g->tick = tick;
        g->live += s->what[i] & LOG_FREE ? -size : size;
    }
    return tick;
}

static void *replay_part(void *arg)
{
    struct part *p = arg;
    while ((p->status = log_reader_next(&p->reader, &p->steps, &p->err)) == 0 && p->steps.n) {
        uint64_t tick = p->tick;
        for (size_t i = 0; i < p->n; i++) {
            const struct levels *l = &p->levels[i];
            if (l->shared)
                p->tick = replay(l->of, p->late ? l->late : l->early, &p->steps, tick);
        }
    }
    return NULL;
}

/*
 * The start of a nanosecond about halfway through a pool's log; the log's beginning if there is
 * none, or too little to divide.
 */
static int halfway(struct part *p, const struct stream_pool *pool, struct log_place *place,
                   struct err *e)
{
    struct log_place middle = {(pool->from.chunk + pool->to.chunk + 1) / 2, 0};
    *place = pool->from;
    if (pool->to.chunk - pool->from.chunk < CHUNKS_FOR_A_THREAD)
        return 0;
    log_reader_init(&p->reader, p->reader.log, middle, pool->to);
    do {
        middle = p->reader.next;
        if (log_reader_next(&p->reader, &p->steps, e) != 0)
            return -1;
    } while (p->steps.n && !(p->steps.what[0] & LOG_LATER));
    if (p->steps.n)
        *place = middle;
    return 0;
}

/* Signals are for the main thread. */
static bool start(pthread_t *thread, struct part *p)
{
    sigset_t all, before;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0)
        return false;
    bool started = pthread_create(thread, NULL, replay_part, p) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

/* Replays both halves of a pool's log at the same time. */
static int replay_halves(struct part parts[2], const struct stream_pool *pool, struct err *e)
{
    struct log_place middle;
    pthread_t thread;
    bool started = false;
    if (halfway(&parts[1], pool, &middle, e) != 0)
        return -1;
    bool whole = middle.chunk == pool->from.chunk && middle.at == pool->from.at;
    parts[0].reader.next = pool->from;
    parts[0].reader.end = whole ? pool->to : middle;
    parts[1].reader.next = middle;
    parts[1].reader.end = pool->to;
    if (!whole)
        started = start(&thread, &parts[1]);
    (void)replay_part(&parts[0]);
    if (started)
        pthread_join(thread, NULL);
    else if (!whole)
        (void)replay_part(&parts[1]);
    for (unsigned i = 0; i < 2; i++) {
        if (parts[i].status != 0)
            *e = parts[i].err;
        if (parts[i].status != 0)
            return -1;
    }
    return 0;
}

static int replay_pool(const struct stream_log *log, const struct stream_pool *pool,
                       struct levels *levels, size_t n, struct err *e)
{
    struct part *parts = calloc(2, sizeof *parts);
    if (!parts)
        return err_no_memory(e, "figures of groups");
    for (unsigned i = 0; i < 2; i++) {
        parts[i] = (struct part){.levels = levels, .n = n, .late = i == 1};
        log_reader_init(&parts[i].reader, log, pool->from, pool->to);
    }
    int status = replay_halves(parts, pool, e);
    for (unsigned i = 0; i < 2; i++)
        log_reader_release(&parts[i].reader);
    free(parts);
    return status;
}

static uint64_t peak_of(const struct level *early, const struct level *late)
{
    int64_t first = early->live > early->peak ? early->live : early->peak;
    int64_t second = early->live + (late->live > late->peak ? late->live : late->peak);
    return (uint64_t)(second > first ? second : first);
}

/* ---- from the call stacks: all other figures */

/*
 * Adds a call stack's counter. Returns whether the group already had one. The peak is that of the
 * last one only.
 */
static bool add_counter(struct counter *sum, const struct counter *c)
{
    bool first = sum->count == 0;
    sum->first_time = first || c->first_time < sum->first_time ? c->first_time : sum->first_time;
    sum->last_time = first || c->last_time > sum->last_time ? c->last_time : sum->last_time;
    sum->count += c->count;
    sum->bytes = saturating_add(sum->bytes, c->bytes);
    sum->live_count += c->live_count;
    sum->live_bytes += c->live_bytes;
    sum->peak_bytes = c->peak_bytes;
    sum->at_peak_bytes = saturating_add(sum->at_peak_bytes, c->at_peak_bytes);
    sum->at_peak_count += c->at_peak_count;
    sum->temporary += c->temporary;
    sum->temporary_bytes = saturating_add(sum->temporary_bytes, c->temporary_bytes);
    sum->largest = c->largest > sum->largest ? c->largest : sum->largest;
    return !first;
}

static void add_callstacks(const struct stream_figures *f, uint32_t pool, struct levels *l)
{
    uint64_t iter = 0;
    uint32_t callstack;
    struct counter c;
    levels_clear(l);
    while (accounting_next(&f->callstacks, pool, &iter, &callstack, &c)) {
        uint32_t group = group_of(l->of, callstack);
        l->hashes[group] = group_hash(l->hashes[group], callstack);
        l->members[group]++;
        if (add_counter(&l->sums[group], &c))
            l->shared = true;
        else
            l->used[l->used_count++] = group;
    }
}

/* The peak of a group of a pool in which some group has several call stacks. */
static int find_peak(struct stream_figures *f, const struct levels *l, const struct stream_pool *p,
                     uint32_t group, uint64_t *peak, struct err *e)
{
    if (!p->peaks) {
        *peak = peak_of(&l->early[group], &l->late[group]);
        return 0;
    }
    if (l->members[group] < 2)
        return 0;
    const uint64_t *known = map_find(p->peaks, l->hashes[group]);
    if (!known)
        return memory_refuse("peaks are known of the sites as they were named and divided when the "
                             "figures were stored, and not with other names or rules",
                             e);
    *peak = group_peak_bytes(*known);
    f->bounds += group_peak_is_bound(*known);
    return 0;
}

static int give(struct stream_figures *f, const struct levels *l, uint32_t pool,
                const struct stream_pool *p, const struct pool_figures *figures, struct err *e)
{
    struct accounting *into = l->of->into;
    if (accounting_put_pool(into, pool, figures, e) != 0)
        return -1;
    for (size_t i = 0; i < l->used_count; i++) {
        uint32_t group = l->used[i];
        struct counter *c = &l->sums[group];
        if (l->shared && find_peak(f, l, p, group, &c->peak_bytes, e) != 0)
            return -1;
        if (accounting_put_counter(into, pool, group, c, e) != 0)
            return -1;
    }
    return 0;
}

static int group_pool(struct stream_figures *f, const struct stream_pool *p,
                      const struct selection *s, struct levels *levels, size_t n, struct err *e)
{
    uint32_t pool = s->pool_of[p->number];
    struct pool_figures figures;
    bool shared = false;
    if (pool == UINT32_MAX)
        return 0;
    for (size_t i = 0; i < n; i++) {
        add_callstacks(f, p->number, &levels[i]);
        shared |= levels[i].shared;
    }
    if (shared && !p->peaks && replay_pool(&f->counting.log, p, levels, n, e) != 0)
        return -1;
    accounting_pool(&f->callstacks, p->number, &figures);
    for (size_t i = 0; i < n; i++) {
        if (give(f, &levels[i], pool, p, &figures, e) != 0)
            return -1;
    }
    return 0;
}

/* ---- a log whose beginning is gone */

/* Where the call stacks of a group were before. */
struct origin {
    uint32_t group; /* before, + 1; 0: they are new */
    uint32_t stacks;
    bool mixed;     /* in several groups */
    uint64_t least; /* the highest peak of one of its call stacks */
};

struct origins {
    struct origin *of; /* by group */
    uint32_t *before;  /* by group before: its call stacks in the pool */
};

static void origins_release(struct origins *o)
{
    free(o->of);
    free(o->before);
}

static int origins_find(struct origins *o, const struct stream_figures *f, uint32_t pool,
                        const struct levels *l, const struct stream_past *past, struct err *e)
{
    uint32_t most = 0, id;
    uint64_t iter = 0;
    for (size_t i = 0; past && i < past->count; i++)
        most = past->groups[i] > most ? past->groups[i] : most;
    o->of = calloc(l->n, sizeof *o->of);
    o->before = calloc((size_t)most + 1, sizeof *o->before);
    if (!o->of || !o->before)
        return err_no_memory(e, "figures of groups");
    for (struct counter c; accounting_next(&f->callstacks, pool, &iter, &id, &c);) {
        struct origin *to = &o->of[group_of(l->of, id)];
        to->least = c.peak_bytes > to->least ? c.peak_bytes : to->least;
        if (!past || id >= past->count)
            continue;
        uint32_t group = past->groups[id];
        to->mixed |= to->group && to->group != group + 1;
        to->group = group + 1;
        to->stacks++;
        o->before[group]++;
    }
    return 0;
}

static uint64_t peak_with_past(const struct levels *l, uint32_t group, const struct origins *o,
                               const struct stream_past *past)
{
    const struct counter *c = &l->sums[group];
    const struct level *early = &l->early[group], *late = &l->late[group];
    const struct origin *from = &o->of[group];
    uint64_t begun = c->live_bytes - (uint64_t)(early->live + late->live);
    uint64_t peak = l->members[group] > 1 ? begun + peak_of(early, late) : c->peak_bytes;
    if (!from->group || l->members[group] == 1)
        return group_peak(peak, false);
    const uint64_t *known = map_find(past->peaks, from->group - 1);
    bool whole = !from->mixed && o->before[from->group - 1] == from->stacks;
    uint64_t held = whole && known ? group_peak_bytes(*known) : from->least;
    return group_peak(held > peak ? held : peak, !whole || (known && group_peak_is_bound(*known)));
}

static int keep_peaks(const struct levels *l, const struct origins *o,
                      const struct stream_past *past, bool by_hash, struct map *peaks,
                      struct err *e)
{
    for (size_t i = 0; i < l->used_count; i++) {
        uint32_t group = l->used[i];
        if (by_hash && l->members[group] < 2)
            continue;
        bool fresh;
        uint64_t *peak = map_add(peaks, by_hash ? l->hashes[group] : group, &fresh);
        if (!peak)
            return err_no_memory(e, "figures of groups");
        uint64_t found = peak_with_past(l, group, o, past);
        /* The same call stacks may be a group in several ways: one may know the peak. */
        if (fresh || (group_peak_is_bound(*peak) && (!group_peak_is_bound(found) || found > *peak)))
            *peak = found;
    }
    return 0;
}

int stream_figures_peaks(struct stream_figures *f, uint32_t pool, const struct stream_log *log,
                         const struct stream_grouping *grouping, const struct stream_past *past,
                         bool by_hash, struct map *peaks, struct err *e)
{
    const struct stream_pool all = {.number = pool, .to = stream_log_end(log)};
    struct origins origins = {0};
    struct levels levels;
    int status = levels_init(&levels, grouping, f->trace->memory.pageable, e);
    if (status == 0)
        add_callstacks(f, pool, &levels);
    if (status == 0)
        status = origins_find(&origins, f, pool, &levels, past, e);
    if (status == 0 && levels.shared)
        status = replay_pool(log, &all, &levels, 1, e);
    if (status == 0)
        status = keep_peaks(&levels, &origins, past, by_hash, peaks, e);
    origins_release(&origins);
    levels_release(&levels);
    return status;
}

int stream_figures_group(struct stream_figures *f, const struct selection *s,
                         const struct stream_grouping *groupings, size_t n, struct err *e)
{
    struct levels *levels = calloc(n + 1, sizeof *levels);
    int status = levels ? 0 : err_no_memory(e, "figures of groups");
    f->bounds = 0;
    for (size_t i = 0; i < n && status == 0; i++)
        status = levels_init(&levels[i], &groupings[i], f->trace->memory.pageable, e);
    for (size_t i = 0; i < f->pools.len && status == 0; i++)
        status = group_pool(f, &f->pools.at[i], s, levels, n, e);
    for (size_t i = 0; levels && i < n; i++)
        levels_release(&levels[i]);
    free(levels);
    return status;
}

static int borrow(const struct stream_figures *f, const struct accounting *from,
                  const struct selection *s, struct accounting *into, struct err *e)
{
    for (size_t i = 0; i < f->pools.len; i++) {
        uint32_t number = f->pools.at[i].number;
        uint32_t pool = s->pool_of[number];
        if (pool != UINT32_MAX && accounting_borrow(into, pool, from, number, e) != 0)
            return -1;
    }
    return 0;
}

int stream_figures_callstacks(const struct stream_figures *f, const struct selection *s,
                              struct accounting *into, struct err *e)
{
    return borrow(f, &f->callstacks, s, into, e);
}

int stream_figures_threads(const struct stream_figures *f, const struct selection *s,
                           struct accounting *into, struct err *e)
{
    return borrow(f, &f->threads, s, into, e);
}
