/* Figures by group of what analysis/stream_figures.h counted by call stack. */

#include <stdlib.h>

#include "analysis/stream_figures.h"
#include "analysis/stream_parts.h"
#include "base/saturate.h"

/* A group's use while the log is gone through. */
struct level {
    uint64_t live;
    uint64_t peak; /* not yet of the nanosecond `tick` */
    uint64_t tick;
    uint64_t unused; /* two of them make a cache line */
};

struct levels {
    const struct stream_grouping *of;
    struct level *at;
    struct counter *sums; /* beside them */
    size_t len;
    uint64_t tick; /* nanoseconds in which something happened */
};

static inline uint32_t group_of(const struct levels *l, uint32_t callstack)
{
    return callstack < l->of->group_count ? l->of->groups[callstack] : 0;
}

static int levels_init(struct levels *l, const struct stream_grouping *of, struct err *e)
{
    uint32_t most = 0;
    for (size_t i = 0; i < of->group_count; i++)
        most = of->groups[i] > most ? of->groups[i] : most;
    *l = (struct levels){.of = of, .len = (size_t)most + 1};
    l->at = malloc(l->len * sizeof *l->at);
    l->sums = malloc(l->len * sizeof *l->sums);
    return l->at && l->sums ? 0 : err_no_memory(e, "figures of groups");
}

static void levels_release(struct levels *l)
{
    free(l->at);
    free(l->sums);
}

static void levels_clear(struct levels *l)
{
    l->tick = 0;
    for (size_t i = 0; i < l->len; i++) {
        l->at[i] = (struct level){0};
        l->sums[i] = (struct counter){0};
    }
}

/* ---- from the log: a group's own highest use */

static void replay(struct levels *l, const struct log_step *steps, size_t n)
{
    uint64_t tick = l->tick;
    for (size_t i = 0; i < n; i++) {
        struct level *g = &l->at[group_of(l, steps[i].what >> 2)];
        uint64_t size = steps[i].size_low | (uint64_t)steps[i].size_high << 32;
        tick += steps[i].what & LOG_LATER;
        if (g->tick != tick) {
            g->peak = g->live > g->peak ? g->live : g->peak;
            g->tick = tick;
        }
        uint64_t more = saturating_add(g->live, size);
        uint64_t less = saturating_sub(g->live, size);
        g->live = steps[i].what & LOG_FREE ? less : more;
    }
    l->tick = tick;
}

/* Goes on in the log where *run ends: the steps of one pool. */
struct log_cursor {
    struct column_reader reader;
    const struct log_step *run;
    size_t left;
};

static int replay_pool(struct log_cursor *c, uint64_t steps, struct levels *levels, size_t n,
                       bool wanted, struct err *e)
{
    while (steps) {
        if (!c->left && !(c->run = column_reader_next(&c->reader, &c->left, e)))
            return -1;
        size_t part = c->left < steps ? c->left : (size_t)steps;
        for (size_t i = 0; i < n && wanted; i++)
            replay(&levels[i], c->run, part);
        c->run += part;
        c->left -= part;
        steps -= part;
    }
    return 0;
}

/* ---- from the call stacks: all else */

static void add_counter(struct counter *sum, const struct counter *c)
{
    bool first = sum->count == 0;
    sum->first_time = first || c->first_time < sum->first_time ? c->first_time : sum->first_time;
    sum->last_time = first || c->last_time > sum->last_time ? c->last_time : sum->last_time;
    sum->count += c->count;
    sum->bytes = saturating_add(sum->bytes, c->bytes);
    sum->live_count += c->live_count;
    sum->at_peak_bytes = saturating_add(sum->at_peak_bytes, c->at_peak_bytes);
    sum->at_peak_count += c->at_peak_count;
    sum->temporary += c->temporary;
    sum->temporary_bytes = saturating_add(sum->temporary_bytes, c->temporary_bytes);
    sum->largest = c->largest > sum->largest ? c->largest : sum->largest;
}

static void add_callstacks(const struct stream_figures *f, uint32_t pool, struct levels *l)
{
    uint64_t iter = 0;
    uint32_t callstack;
    struct counter c;
    while (accounting_next(&f->callstacks, pool, &iter, &callstack, &c))
        add_counter(&l->sums[group_of(l, callstack)], &c);
}

static int give(const struct levels *l, uint32_t pool, const struct pool_figures *figures,
                struct err *e)
{
    struct accounting *into = l->of->into;
    if (accounting_put_pool(into, pool, figures, e) != 0)
        return -1;
    for (size_t i = 0; i < l->len; i++) {
        const struct level *g = &l->at[i];
        struct counter *c = &l->sums[i];
        if (c->count == 0)
            continue;
        c->live_bytes = g->live;
        c->peak_bytes = g->live > g->peak ? g->live : g->peak;
        if (accounting_put_counter(into, pool, (uint32_t)i, c, e) != 0)
            return -1;
    }
    return 0;
}

static int group_pool(const struct stream_figures *f, const struct stream_pool *p,
                      const struct selection *s, struct log_cursor *cursor, struct levels *levels,
                      size_t n, struct err *e)
{
    uint32_t pool = s->pool_of[p->number];
    bool wanted = pool != UINT32_MAX;
    struct pool_figures figures;
    for (size_t i = 0; i < n && wanted; i++)
        levels_clear(&levels[i]);
    if (replay_pool(cursor, p->steps, levels, n, wanted, e) != 0)
        return -1;
    accounting_pool(&f->callstacks, p->number, &figures);
    for (size_t i = 0; i < n && wanted; i++) {
        add_callstacks(f, p->number, &levels[i]);
        if (give(&levels[i], pool, &figures, e) != 0)
            return -1;
    }
    return 0;
}

int stream_figures_group(struct stream_figures *f, const struct selection *s,
                         const struct stream_grouping *groupings, size_t n, struct err *e)
{
    struct levels *levels = calloc(n + 1, sizeof *levels);
    struct log_cursor cursor = {0};
    int status = levels ? 0 : err_no_memory(e, "figures of groups");
    column_reader_init(&cursor.reader, &f->counting.log);
    for (size_t i = 0; i < n && status == 0; i++)
        status = levels_init(&levels[i], &groupings[i], e);
    for (size_t i = 0; i < f->pools.len && status == 0; i++)
        status = group_pool(f, &f->pools.at[i], s, &cursor, levels, n, e);
    column_reader_release(&cursor.reader);
    for (size_t i = 0; levels && i < n; i++)
        levels_release(&levels[i]);
    free(levels);
    return status;
}

int stream_figures_callstacks(const struct stream_figures *f, const struct selection *s,
                              struct accounting *into, struct err *e)
{
    for (size_t i = 0; i < f->pools.len; i++) {
        uint32_t number = f->pools.at[i].number;
        uint32_t pool = s->pool_of[number];
        if (pool != UINT32_MAX && accounting_borrow(into, pool, &f->callstacks, number, e) != 0)
            return -1;
    }
    return 0;
}
