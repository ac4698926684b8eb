#include "analysis/csvexport/plot_list.h"

#include <stdlib.h>

#include "trace/file/record_takers.h"

#define SPOOL_BUDGET ((size_t)16 << 20)
#define FIRST_FRAME 3 /* of an on-demand client: the first frame after connecting */

static const struct pack_layout point_layout = {
    .element = sizeof(struct listed_point),
    .count = 2,
    .fields = {{0, 8, PACK_STEP}, {8, 8, PACK_OFFSET}},
};

int plot_list_init(struct plot_list *l, const struct plot_sink *sink, const char *dir,
                   struct err *e)
{
    *l = (struct plot_list){.sink = *sink};
    if (spool_init(&l->spool, dir, SPOOL_BUDGET, e) != 0)
        return -1;
    column_init(&l->stored.points, &l->spool, &point_layout, false);
    column_init(&l->pools.points, &l->spool, &point_layout, false);
    pool_use_init(&l->use, &l->pools.points, dir);
    return 0;
}

void plot_list_release(struct plot_list *l)
{
    if (l->stored.points.spool) {
        column_release(&l->stored.points);
        column_release(&l->pools.points);
        pool_use_release(&l->use);
        spool_release(&l->spool);
    }
    vec_release(&l->stored.plots);
    vec_release(&l->pools.plots);
    hash_order_release(&l->order);
    map_release(&l->pool_numbers);
    *l = (struct plot_list){0};
}

TAKE_EACH(take_header, struct plot_list *l, header, r)
{
    l->on_demand = r->on_demand != 0;
    return 0;
}

TAKE_EACH(begin_frame_set, struct plot_list *l, frame_set, r)
{
    l->sets++;
    return 0;
}

/* The first set is the base one. */
TAKE_EACH(put_frame, struct plot_list *l, frame, r)
{
    l->frames += l->sets == 1;
    if (l->sets == 1 && l->frames == FIRST_FRAME && l->on_demand)
        l->first_time = r->start;
    return 0;
}

TAKE_EACH(put_plot, struct plot_list *l, plot, r)
{
    struct listed_plot plot = {.name = r->name, .first = l->stored.points.len, .n = r->n};
    return vec_push(&l->stored.plots, plot) ? 0 : err_no_memory(e, "plots");
}

TAKE_EACH(put_point, struct plot_list *l, plot_point, r)
{
    struct listed_point *p = column_append(&l->stored.points, e);
    if (!p)
        return -1;
    *p = (struct listed_point){r->time, r->value};
    return 0;
}

/* A pool's key comes once; otherwise the first one determines the order. */
static int list_pool(struct plot_list *l, struct err *e)
{
    struct listed_plot plot = {.key = l->pool, .first = l->pools.points.len};
    bool fresh;
    uint64_t *number = map_add(&l->pool_numbers, l->pool, &fresh);
    if (!number || !vec_push(&l->pools.plots, plot))
        return err_no_memory(e, "plots");
    if (!fresh)
        return err_set(e, ERR_INPUT, "two memory pools have the key 0x%llx",
                       (unsigned long long)l->pool);
    *number = l->pools.plots.len - 1;
    l->pool_listed = true;
    return pool_use_begin(&l->use, l->first_time, e);
}

TAKE_EACH(begin_pool, struct plot_list *l, pool, r)
{
    l->pool = r->key;
    return hash_order_add(&l->order, l->pool, NULL, e);
}

TAKE_ALL(put_events, struct plot_list *l, memory_event, r)
{
    if (!l->pool_listed && list_pool(l, e) != 0)
        return -1;
    return pool_use_add(&l->use, r, n, e);
}

TAKE_EACH(end_pool, struct plot_list *l, pool_end, r)
{
    if (!l->pool_listed)
        return 0;
    struct listed_plot *plot = &l->pools.plots.at[l->pools.plots.len - 1];
    l->pool_listed = false;
    int status = pool_use_end(&l->use, e);
    plot->name = r->name;
    plot->n = l->pools.points.len - plot->first;
    return status;
}

/* ---- records */

static const record_takers takers = {
    [REC_HEADER] = take_header,      [REC_FRAME_SET] = begin_frame_set, [REC_FRAME] = put_frame,
    [REC_PLOT] = put_plot,           [REC_PLOT_POINT] = put_point,      [REC_POOL] = begin_pool,
    [REC_MEMORY_EVENT] = put_events, [REC_POOL_END] = end_pool,
};

void plot_list_wanted(bool wanted[REC_TYPE_COUNT])
{
    records_wanted(takers, wanted);
}

int plot_list_put(struct plot_list *l, enum record_type type, const void *recs, size_t n,
                  struct err *e)
{
    return records_take(takers, l, type, recs, n, e);
}

static int hand_over(struct plot_list *l, struct plot_column *c, const struct listed_plot *plot,
                     struct err *e)
{
    struct column_reader reader;
    const struct listed_point *points;
    struct err failed = {0};
    size_t n;
    int status = 0;
    column_reader_init(&reader, &c->points);
    reader.next = plot->first;
    for (uint64_t left = plot->n; status == 0 && left > 0; left -= n) {
        points = column_reader_next(&reader, &n, &failed);
        if (!points)
            break;
        n = n < left ? n : (size_t)left;
        status = l->sink.put(l->sink.ctx, plot->name, points, n, e);
    }
    column_reader_release(&reader);
    if (status == 0 && failed.code != ERR_NONE) {
        *e = failed;
        status = -1;
    }
    return status;
}

/* Positions of the pools in the order of their hash map. */
static int order_pools(const struct plot_list *l, size_t *positions)
{
    size_t iter = 0, n = 0;
    uint64_t key;
    while (hash_order_next(&l->order, &iter, &key)) {
        const uint64_t *number = map_find(&l->pool_numbers, key);
        if (number)
            positions[n++] = (size_t)*number;
    }
    return (int)n;
}

static int finish_pools(struct plot_list *l, struct err *e)
{
    size_t *positions = malloc((l->pools.plots.len + 1) * sizeof *positions);
    if (!positions)
        return err_no_memory(e, "plots");
    int status = 0;
    for (int i = order_pools(l, positions); status == 0 && i-- > 0;)
        status = hand_over(l, &l->pools, &l->pools.plots.at[positions[i]], e);
    free(positions);
    return status;
}

int plot_list_finish(struct plot_list *l, struct err *e)
{
    int status = finish_pools(l, e);
    for (size_t i = 0; status == 0 && i < l->stored.plots.len; i++)
        status = hand_over(l, &l->stored, &l->stored.plots.at[i], e);
    return status;
}
