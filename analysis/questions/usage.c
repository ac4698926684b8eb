#include "analysis/questions/usage.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/saturate.h"

/* A pool, and its current interval. */
struct pool_usage {
    bool any;     /* there was a step */
    bool waiting; /* the interval has points */
    int64_t now;
    uint64_t bytes, count;
    int64_t end; /* of that interval, ns, exclusive */
    struct usage_point low, high, last;
};

struct usage {
    struct selection *selection;
    struct pool_usage *pools;
    int64_t width; /* ns of an interval; 0: every point is passed on */
    int (*put)(void *ctx, const struct usage_point *p, struct err *e);
    void *ctx;
};

/* Passes on the points of an interval in order of time, each once. */
static int end_stretch(struct usage *u, struct pool_usage *p, struct err *e)
{
    const struct usage_point *first = p->low.time < p->high.time ? &p->low : &p->high;
    const struct usage_point *second = first == &p->low ? &p->high : &p->low;
    if (!p->waiting)
        return 0;
    p->waiting = false;
    if (u->put(u->ctx, first, e) != 0)
        return -1;
    if (second->time > first->time && u->put(u->ctx, second, e) != 0)
        return -1;
    return p->last.time > second->time ? u->put(u->ctx, &p->last, e) : 0;
}

/* Ends the nanosecond `now` of a pool. */
static int end_nanosecond(struct usage *u, size_t pool, struct err *e)
{
    struct pool_usage *p = &u->pools[pool];
    const struct usage_point point = {u->selection->pools.at[pool].key, p->now, p->bytes, p->count};
    if (u->width == 0)
        return u->put(u->ctx, &point, e);
    if (p->waiting && p->now >= p->end && end_stretch(u, p, e) != 0)
        return -1;
    if (!p->waiting) {
        p->low = p->high = point;
        int64_t number = p->now / u->width; /* rounded towards 0 */
        p->end = number < 0 ? number * u->width + 1 : (number + 1) * u->width;
    }
    p->waiting = true;
    p->last = point;
    if (point.bytes < p->low.bytes)
        p->low = point;
    if (point.bytes > p->high.bytes)
        p->high = point;
    return 0;
}

static int take_step(void *ctx, const struct memory_op *op, struct err *e)
{
    struct usage *u = ctx;
    struct pool_usage *p = &u->pools[op->pool];
    if (p->any && op->time > p->now && end_nanosecond(u, op->pool, e) != 0)
        return -1;
    if (!p->any || op->time > p->now)
        p->now = op->time;
    p->any = true;
    if (op->kind == MEMORY_ALLOC) {
        p->bytes = saturating_add(p->bytes, op->block.size);
        p->count++;
    } else {
        p->bytes = saturating_sub(p->bytes, op->block.size);
        p->count--;
    }
    return 0;
}

int usage_walk(struct selection *s, uint64_t points,
               int (*put)(void *ctx, const struct usage_point *p, struct err *e), void *ctx,
               struct err *e)
{
    struct usage u = {.selection = s, .put = put, .ctx = ctx};
    const struct memory_observer to = {.ctx = &u, .op = take_step};
    int64_t end = s->trace->facts.last_time;
    if (points > 0)
        u.width = end > 0 && (uint64_t)end / points > 0 ? (int64_t)((uint64_t)end / points) : 1;
    u.pools = calloc(s->pools.len + 1, sizeof *u.pools);
    if (!u.pools)
        return err_no_memory(e, "the use of pools");
    int status = selection_sweep(s, &to, e);
    for (size_t i = 0; i < s->pools.len && status == 0; i++) {
        if (u.pools[i].any)
            status = end_nanosecond(&u, i, e);
        if (status == 0)
            status = end_stretch(&u, &u.pools[i], e);
    }
    free(u.pools);
    return status;
}
