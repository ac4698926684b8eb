#include "analysis/figures/stored_figures.h"

#include <inttypes.h>
#include <stdlib.h>

#include "analysis/figures/figure_bytes.h"
#include "base/cursor.h"
#include "base/map.h"
#include "base/saturate.h"

/* Minimum size of a pool, a site and a call stack, in bytes. */
#define POOL_LEAST (4 + POOL_FIELDS + 2)
#define SITE_LEAST COUNTER_FIELDS
#define CALLSTACK_LEAST 4u

static uint32_t site_of(const struct site_map *sites, uint32_t callstack)
{
    return callstack < sites->count ? sites->of_callstack[callstack] : 0;
}

void stored_figures_release(struct stored_figures *f)
{
    for (size_t i = 0; i < f->pools.len; i++) {
        vec_release(&f->pools.at[i].sites);
        vec_release(&f->pools.at[i].callstacks);
    }
    vec_release(&f->pools);
}

/* ---- taking */

static int take_pool(struct stored_figures *f, const struct pool *from, uint32_t number,
                     const struct site_map *sites, const struct accounting *by_site,
                     const struct accounting *by_callstack, struct err *e)
{
    const struct stored_pool fresh = {.key = from->key,
                                      .low_address = from->totals.low_address,
                                      .high_address = from->totals.high_address,
                                      .disorder = from->disorder};
    struct map places = {0}; /* site → index + 1 */
    struct counter c;
    uint32_t key;
    if (!vec_push(&f->pools, fresh))
        return err_no_memory(e, "figures beside the trace");
    struct stored_pool *p = &f->pools.at[f->pools.len - 1];
    int status = 0;
    accounting_pool(by_site, number, &p->figures);
    for (uint64_t i = 0; status == 0 && accounting_next(by_site, number, &i, &key, &c);) {
        uint64_t *place = map_add(&places, key, NULL);
        if (!place || !vec_push(&p->sites, c))
            status = err_no_memory(e, "figures beside the trace");
        else
            *place = p->sites.len - 1;
    }
    for (uint64_t i = 0; status == 0 && accounting_next(by_callstack, number, &i, &key, &c);) {
        const uint64_t *place = map_find(&places, site_of(sites, key));
        const struct stored_callstack one = {key, place ? (uint32_t)*place : 0, c.count, c.bytes};
        if (!vec_push(&p->callstacks, one))
            status = err_no_memory(e, "figures beside the trace");
    }
    map_release(&places);
    return status;
}

/* Whether no two pools are one for the selection. */
static bool are_apart(const struct trace *t, const struct selection *selection, uint8_t *seen)
{
    for (size_t i = 0; i < t->memory.pools.len; i++) {
        uint32_t number = selection->pool_of[i];
        if (number == UINT32_MAX)
            continue;
        if (seen[number])
            return false;
        seen[number] = 1;
    }
    return true;
}

static int check_apart(const struct trace *t, const struct selection *selection, struct err *e)
{
    uint8_t *seen = calloc(selection->pools.len + 1, 1);
    if (!seen)
        return err_no_memory(e, "figures beside the trace");
    bool apart = are_apart(t, selection, seen);
    free(seen);
    return apart;
}

int stored_figures_take(struct stored_figures *f, const struct trace *t,
                        const struct selection *selection, const struct site_map *sites,
                        const struct accounting *by_site, const struct accounting *by_callstack,
                        struct err *e)
{
    *f = (struct stored_figures){0};
    int status = check_apart(t, selection, e);
    if (status != 1)
        return status;
    for (size_t i = 0; i < t->memory.pools.len; i++) {
        if (take_pool(f, t->memory.pools.at[i], selection->pool_of[i], sites, by_site, by_callstack,
                      e) != 0) {
            stored_figures_release(f);
            return -1;
        }
    }
    return 1;
}

/* ---- bytes */

static void put_pool(struct buf *out, const struct stored_pool *p)
{
    const uint64_t head[] = {p->key, p->low_address, p->high_address, p->disorder};
    uint32_t before = 0;
    figures_put_all(out, head, sizeof head / sizeof *head);
    figures_put_all(out, &p->figures, POOL_FIELDS);
    figures_put(out, p->sites.len);
    figures_put(out, p->callstacks.len);
    for (size_t i = 0; i < p->sites.len; i++)
        figures_put_all(out, &p->sites.at[i], COUNTER_FIELDS);
    for (size_t i = 0; i < p->callstacks.len; i++) {
        const struct stored_callstack *c = &p->callstacks.at[i];
        const uint64_t one[] = {c->callstack - before, c->site, c->count, c->bytes};
        figures_put_all(out, one, sizeof one / sizeof *one);
        before = c->callstack;
    }
}

void stored_figures_encode(const struct stored_figures *f, struct buf *out)
{
    figures_put(out, f->pools.len);
    for (size_t i = 0; i < f->pools.len; i++)
        put_pool(out, &f->pools.at[i]);
}

static int refuse(const struct cursor *c, const char *what, struct err *e)
{
    return err_set(e, ERR_INPUT, "figures beside the trace, offset %zu: %s", cursor_offset(c),
                   c->short_read ? "they end before they should" : what);
}

static int take_callstacks(struct cursor *c, struct stored_pool *p, uint64_t n, struct err *e)
{
    uint64_t id = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t one[4];
        figures_take_all(c, one, 4);
        if (c->short_read || (i && one[0] == 0) || one[0] > UINT32_MAX - id)
            return refuse(c, "call stacks out of order", e);
        if (one[1] >= p->sites.len || one[2] == 0)
            return refuse(c, "a call stack without a site", e);
        id += one[0];
        p->callstacks.at[p->callstacks.len++] =
            (struct stored_callstack){(uint32_t)id, (uint32_t)one[1], one[2], one[3]};
    }
    return 0;
}

/* The figures of sites and of the pool are sums over call stacks. */
static bool adds_up(const struct stored_pool *p, uint64_t *sums)
{
    uint64_t all = 0;
    for (size_t i = 0; i < p->callstacks.len; i++) {
        const struct stored_callstack *c = &p->callstacks.at[i];
        sums[c->site] = saturating_add(sums[c->site], c->count);
        all = saturating_add(all, c->count);
    }
    for (size_t i = 0; i < p->sites.len; i++) {
        const struct counter *c = &p->sites.at[i];
        if (sums[i] != c->count || c->count == 0 || c->live_count > c->count)
            return false;
    }
    const struct pool_figures *f = &p->figures;
    return all == f->allocations && f->frees <= all && f->live == all - f->frees;
}

static int decode_pool(struct cursor *c, struct stored_pool *p, struct err *e)
{
    uint64_t head[4];
    figures_take_all(c, head, 4);
    p->key = head[0];
    p->low_address = head[1];
    p->high_address = head[2];
    p->disorder = head[3];
    figures_take_all(c, &p->figures, POOL_FIELDS);
    uint64_t sites = figures_take(c);
    uint64_t callstacks = figures_take(c);
    if (c->short_read || sites > cursor_left(c) / SITE_LEAST ||
        callstacks > (cursor_left(c) - sites * SITE_LEAST) / CALLSTACK_LEAST)
        return refuse(c, "more sites or call stacks than there are bytes", e);
    if (!vec_reserve(&p->sites, sites + 1) || !vec_reserve(&p->callstacks, callstacks + 1))
        return err_no_memory(e, "figures beside the trace");
    for (; p->sites.len < sites; p->sites.len++)
        figures_take_all(c, &p->sites.at[p->sites.len], COUNTER_FIELDS);
    if (take_callstacks(c, p, callstacks, e) != 0)
        return -1;
    uint64_t *sums = calloc(sites + 1, sizeof *sums);
    if (!sums)
        return err_no_memory(e, "figures beside the trace");
    bool right = adds_up(p, sums);
    free(sums);
    return right ? 0 : refuse(c, "they do not add up", e);
}

static int decode(struct stored_figures *f, struct cursor *c, struct err *e)
{
    uint64_t n = figures_take(c);
    if (c->short_read || n > cursor_left(c) / POOL_LEAST || n > POOLS_MAX)
        return refuse(c, "more pools than there are bytes", e);
    for (uint64_t i = 0; i < n; i++) {
        if (!vec_push(&f->pools, (struct stored_pool){0}))
            return err_no_memory(e, "figures beside the trace");
        if (decode_pool(c, &f->pools.at[i], e) != 0)
            return -1;
    }
    return cursor_left(c) ? refuse(c, "bytes behind them", e) : 0;
}

int stored_figures_decode(struct stored_figures *f, struct view bytes, struct err *e)
{
    struct cursor c = cursor_over(bytes.p, bytes.len);
    *f = (struct stored_figures){0};
    int status = decode(f, &c, e);
    if (status != 0)
        stored_figures_release(f);
    return status;
}

/* ---- giving */

/* Each site of the summary is one of the map, and vice versa. */
static bool pool_fits(const struct stored_pool *p, const struct trace *t,
                      const struct site_map *sites, uint32_t *ours, uint32_t *theirs)
{
    bool fits = true;
    for (size_t i = 0; i < p->callstacks.len && fits; i++) {
        const struct stored_callstack *c = &p->callstacks.at[i];
        if (c->callstack > t->callstacks.list.len)
            return false;
        uint32_t there = site_of(sites, c->callstack);
        if (theirs[c->site] == 0 && ours[there] == 0) {
            theirs[c->site] = there + 1;
            ours[there] = c->site + 1;
        }
        fits = theirs[c->site] == there + 1 && ours[there] == c->site + 1;
    }
    for (size_t i = 0; i < p->sites.len; i++) {
        if (theirs[i])
            ours[theirs[i] - 1] = 0;
    }
    return fits;
}

bool stored_figures_fit(const struct stored_figures *f, const struct trace *t,
                        const struct site_map *sites)
{
    uint32_t most = 0;
    for (size_t i = 0; i < sites->count; i++)
        most = sites->of_callstack[i] > most ? sites->of_callstack[i] : most;
    uint32_t *ours = calloc((size_t)most + 1, sizeof *ours);
    bool fits = ours != NULL;
    for (size_t i = 0; i < f->pools.len && fits; i++) {
        const struct stored_pool *p = &f->pools.at[i];
        uint32_t *theirs = calloc(p->sites.len + 1, sizeof *theirs);
        fits = theirs && pool_fits(p, t, sites, ours, theirs);
        free(theirs);
    }
    free(ours);
    return fits;
}

int stored_figures_make_pools(const struct stored_figures *f, struct trace *t, struct err *e)
{
    for (size_t i = 0; i < f->pools.len; i++) {
        const struct stored_pool *p = &f->pools.at[i];
        uint32_t number;
        if (memory_pool(&t->memory, p->key, &number, e) != 0)
            return -1;
        if (number != i)
            return err_set(e, ERR_INPUT, "figures beside the trace: a pool twice");
        struct pool *to = t->memory.pools.at[number];
        to->disorder = p->disorder;
        to->totals = (struct pool_totals){.allocations = p->figures.allocations,
                                          .frees = p->figures.frees,
                                          .live = p->figures.live,
                                          .total_bytes = p->figures.total_bytes,
                                          .live_bytes = p->figures.live_bytes,
                                          .low_address = p->low_address,
                                          .high_address = p->high_address};
        for (size_t k = 0; k < p->callstacks.len; k++) {
            const struct stored_callstack *c = &p->callstacks.at[k];
            if (c->callstack <= t->callstacks.list.len &&
                memory_sum_stack(&t->memory, c->callstack, c->count, c->bytes, e) != 0)
                return -1;
        }
    }
    return 0;
}

void stored_times_encode(const struct stored_figures *f, const struct trace *t, struct buf *out)
{
    for (size_t i = 0; i < f->pools.len; i++) {
        const uint64_t *number = map_find(&t->memory.pool_numbers, f->pools.at[i].key);
        const struct pool *p = number ? t->memory.pools.at[*number] : NULL;
        buf_i64(out, p ? p->first_time : -1);
        buf_i64(out, p ? p->last_time : -1);
    }
}

int stored_times_take(struct trace *t, struct view bytes, struct err *e)
{
    struct cursor c = cursor_over(bytes.p, bytes.len);
    if (bytes.len != t->memory.pools.len * 2 * sizeof(int64_t))
        return err_set(e, ERR_INPUT, "times beside the trace: not one for each pool");
    for (size_t i = 0; i < t->memory.pools.len; i++) {
        struct pool *p = t->memory.pools.at[i];
        p->first_time = cursor_i64(&c);
        p->last_time = cursor_i64(&c);
        if (p->first_time < 0 || p->last_time < p->first_time)
            return err_set(e, ERR_INPUT, "times beside the trace: of pool %zu", i);
    }
    return 0;
}

static int give_pool(const struct stored_pool *p, uint32_t number, const struct site_map *sites,
                     struct accounting *by_site, struct accounting *by_callstack, struct err *e)
{
    if (accounting_put_pool(by_site, number, &p->figures, e) != 0 ||
        accounting_put_pool(by_callstack, number, &p->figures, e) != 0)
        return -1;
    for (size_t i = 0; i < p->callstacks.len; i++) {
        const struct stored_callstack *c = &p->callstacks.at[i];
        const struct counter sums = {.count = c->count, .bytes = c->bytes};
        uint32_t site = site_of(sites, c->callstack);
        if (accounting_put_counter(by_callstack, number, c->callstack, &sums, e) != 0 ||
            accounting_put_counter(by_site, number, site, &p->sites.at[c->site], e) != 0)
            return -1;
    }
    return 0;
}

int stored_figures_give(const struct stored_figures *f, const struct selection *selection,
                        const struct site_map *sites, struct accounting *by_site,
                        struct accounting *by_callstack, struct err *e)
{
    for (size_t i = 0; i < f->pools.len; i++) {
        const struct stored_pool *p = &f->pools.at[i];
        uint32_t number = selection->pool_of[i];
        if (number == UINT32_MAX || p->figures.allocations == 0)
            continue;
        if (number < by_site->pools.len && by_site->pools.at[number])
            return err_set(e, ERR_INPUT, "figures beside the trace: two pools of one name");
        if (give_pool(p, number, sites, by_site, by_callstack, e) != 0)
            return -1;
    }
    return 0;
}
