#include "trace/filter/range_lists.h"

/* ---- plots */

void range_begin_points(struct range *r)
{
    r->point = (struct point){.before = UINT64_MAX};
}

static void count_point(struct range *r, double value)
{
    struct point *p = &r->point;
    if (r->list.kept == 0 || value < p->min)
        p->min = value;
    if (r->list.kept == 0 || value > p->max)
        p->max = value;
    p->sum += value;
    r->list.kept++;
}

void range_count_points(struct range *r, const struct rec_plot_point *points, size_t n)
{
    struct point *p = &r->point;
    for (size_t i = 0; i < n; i++, p->position++) {
        bool before = points[i].time < r->options.begin;
        if (before && (p->before == UINT64_MAX || points[i].time >= p->before_time)) {
            p->before = p->position;
            p->before_time = points[i].time;
            p->before_value = points[i].value;
        }
        if (range_has(r, points[i].time))
            count_point(r, points[i].value);
    }
}

int range_end_points(struct range *r, struct err *e)
{
    struct point *p = &r->point;
    if (p->before != UINT64_MAX)
        count_point(r, p->before_value);
    r->totals[REC_PLOT] += r->list.kept > 0;
    const double figures[] = {p->min, p->max, p->sum};
    if (range_add(r, REC_PLOT, r->list.kept, e) != 0 || range_add(r, REC_PLOT, p->before, e) != 0)
        return -1;
    for (size_t i = 0; i < 3; i++) {
        uint64_t bits;
        memcpy(&bits, &figures[i], sizeof bits);
        if (range_add(r, REC_PLOT, bits, e) != 0)
            return -1;
    }
    return 0;
}

int range_put_plot(struct range *r, const struct rec_plot *plot, struct err *e)
{
    struct rec_plot kept = *plot;
    double *const figures[] = {&kept.min, &kept.max, &kept.sum};
    range_begin_points(r);
    if (range_take(r, REC_PLOT, &kept.n, e) != 0 ||
        range_take(r, REC_PLOT, &r->point.before, e) != 0)
        return -1;
    for (size_t i = 0; i < 3; i++) {
        uint64_t bits;
        if (range_take(r, REC_PLOT, &bits, e) != 0)
            return -1;
        memcpy(figures[i], &bits, sizeof bits);
    }
    return kept.n > 0 ? record_put(&r->next, REC_PLOT, &kept, 1, e) : 0;
}

int range_put_points(struct range *r, const struct rec_plot_point *points, size_t n, struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        bool wanted = r->point.position++ == r->point.before || range_has(r, points[i].time);
        if (wanted && record_put(&r->next, REC_PLOT_POINT, &points[i], 1, e) != 0)
            return -1;
    }
    return 0;
}

/* ---- memory */

void range_count_memory(struct range *r, const struct rec_memory_event *events, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct rec_memory_event *m = &events[i];
        if (!range_keeps_block(r, m))
            continue;
        uint64_t end = m->ptr + m->size;
        r->list.kept++;
        r->pool.frees += is_freed(m->time_free);
        r->pool_end.usage += is_freed(m->time_free) ? 0 : m->size;
        r->pool_end.low = m->ptr < r->pool_end.low ? m->ptr : r->pool_end.low;
        r->pool_end.high = end > r->pool_end.high ? end : r->pool_end.high;
    }
}

void range_begin_pool(struct range *r)
{
    r->pool = (struct rec_pool){0};
    r->pool_end = (struct rec_pool_end){.low = UINT64_MAX};
}

int range_end_pool(struct range *r, struct err *e)
{
    const uint64_t figures[] = {r->list.kept, r->pool.frees, r->pool_end.high, r->pool_end.low,
                                r->pool_end.usage};
    r->totals[REC_MEMORY_EVENT] += r->list.kept;
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
        if (range_add(r, REC_POOL, figures[i], e) != 0)
            return -1;
    }
    return 0;
}

int range_put_pool(struct range *r, const struct rec_pool *pool, struct err *e)
{
    struct rec_pool kept = *pool;
    uint64_t *const figures[] = {&kept.events, &kept.frees, &r->pool_end.high, &r->pool_end.low,
                                 &r->pool_end.usage};
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
        if (range_take(r, REC_POOL, figures[i], e) != 0)
            return -1;
    }
    kept.active = kept.events - kept.frees;
    return record_put(&r->next, REC_POOL, &kept, 1, e);
}

int range_put_pool_end(struct range *r, const struct rec_pool_end *end, struct err *e)
{
    r->pool_end.name = end->name;
    return record_put(&r->next, REC_POOL_END, &r->pool_end, 1, e);
}
