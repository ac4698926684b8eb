#include "analysis/plot_list.h"

#include <stdlib.h>

#define SPOOL_BUDGET ((size_t)16 << 20)
#define FIRST_FRAME 3 /* of an on-demand client: the one after connecting */

/* An allocation or a free: when, and how many bytes. */
struct change {
    int64_t time;
    uint64_t size;
};

static const struct pack_layout point_layout = {
    .element = sizeof(struct listed_point),
    .count = 2,
    .fields = {{0, 8, PACK_STEP}, {8, 8, PACK_OFFSET}},
};

static const struct pack_layout change_layout = {
    .element = sizeof(struct change),
    .count = 2,
    .fields = {{0, 8, PACK_STEP}, {8, 8, PACK_OFFSET}},
};

int plot_list_init(struct plot_list *l, const struct plot_sink *sink, const char *dir,
                   struct err *e)
{
    *l = (struct plot_list){.sink = *sink};
    spill_init(&l->frees, sizeof(struct change), SPOOL_BUDGET / sizeof(struct change), dir);
    if (spool_init(&l->spool, dir, SPOOL_BUDGET, e) != 0)
        return -1;
    column_init(&l->stored.points, &l->spool, &point_layout, false);
    column_init(&l->pools.points, &l->spool, &point_layout, false);
    column_init(&l->allocs, &l->spool, &change_layout, false);
    return 0;
}

void plot_list_release(struct plot_list *l)
{
    if (l->stored.points.spool) {
        column_release(&l->stored.points);
        column_release(&l->pools.points);
        column_release(&l->allocs);
        spool_release(&l->spool);
    }
    spill_release(&l->frees);
    vec_release(&l->stored.plots);
    vec_release(&l->pools.plots);
    hash_order_release(&l->order);
    map_release(&l->pool_numbers);
    *l = (struct plot_list){.frees.fd = -1};
}

void plot_list_wanted(bool wanted[REC_TYPE_COUNT])
{
    static const enum record_type types[] = {REC_HEADER,       REC_FRAME_SET,  REC_FRAME,
                                             REC_PLOT,         REC_PLOT_POINT, REC_POOL,
                                             REC_MEMORY_EVENT, REC_POOL_END};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        wanted[types[i]] = true;
}

/* The first set is the base one. */
static void put_frames(struct plot_list *l, const struct rec_frame *r, size_t n)
{
    if (l->sets != 1 || l->frames >= FIRST_FRAME)
        return;
    if (l->frames + n >= FIRST_FRAME && l->on_demand)
        l->first_time = r[FIRST_FRAME - 1 - l->frames].start;
    l->frames += n;
}

static int put_points(struct plot_list *l, const struct rec_plot_point *r, size_t n, struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        struct listed_point *p = column_append(&l->stored.points, e);
        if (!p)
            return -1;
        *p = (struct listed_point){r[i].time, r[i].value};
    }
    return 0;
}

static int put_events(struct plot_list *l, const struct rec_memory_event *r, size_t n,
                      struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        struct change *c = column_append(&l->allocs, e);
        if (!c)
            return -1;
        *c = (struct change){r[i].time_alloc, r[i].size};
        struct change freed = {r[i].time_free, r[i].size};
        if (freed.time >= 0 && spill_add(&l->frees, &freed, 1, e) != 0)
            return -1;
    }
    return 0;
}

/* ---- the use of a pool */

struct use {
    struct plot_list *list;
    struct column_reader reader;
    const struct change *allocs; /* the run at hand */
    size_t at, n;
    double bytes;
};

static int add_point(struct use *u, int64_t time, struct err *e)
{
    struct listed_point *p = column_append(&u->list->pools.points, e);
    if (!p)
        return -1;
    *p = (struct listed_point){time, u->bytes};
    return 0;
}

/* The next allocation: 1, 0 when there is none, -1 on an error. */
static int next_alloc(struct use *u, struct err *e)
{
    if (u->at < u->n)
        return 1;
    struct err none = {0};
    u->at = 0;
    u->allocs = column_reader_next(&u->reader, &u->n, &none);
    if (u->allocs && u->n > 0)
        return 1;
    u->n = 0;
    if (none.code == ERR_NONE)
        return 0;
    *e = none;
    return -1;
}

static int add_alloc(struct use *u, struct err *e)
{
    const struct change *c = &u->allocs[u->at++];
    u->bytes += (double)(int64_t)c->size;
    return add_point(u, c->time, e);
}

/* A free comes before an allocation of the same time. */
static int add_frees(void *ctx, const void *recs, size_t n, struct err *e)
{
    struct use *u = ctx;
    const struct change *c = recs;
    for (size_t i = 0; i < n; i++) {
        int there;
        while ((there = next_alloc(u, e)) > 0 && u->allocs[u->at].time < c[i].time) {
            if (add_alloc(u, e) != 0)
                return -1;
        }
        if (there < 0)
            return -1;
        u->bytes -= (double)(int64_t)c[i].size;
        if (add_point(u, c[i].time, e) != 0)
            return -1;
    }
    return 0;
}

/* A pool's key comes once; where it does not, the first one decides the order. */
static int list_pool(struct plot_list *l, uint64_t name, struct err *e)
{
    struct listed_plot plot = {.name = name, .key = l->pool, .first = l->pools.points.len};
    bool fresh;
    uint64_t *number = map_add(&l->pool_numbers, l->pool, &fresh);
    if (!number || !vec_push(&l->pools.plots, plot))
        return err_no_memory(e, "plots");
    if (!fresh)
        return err_set(e, ERR_INPUT, "two memory pools have the key 0x%llx",
                       (unsigned long long)l->pool);
    *number = l->pools.plots.len - 1;
    return 0;
}

static int add_use(struct plot_list *l, struct use *u, struct err *e)
{
    int there;
    if (add_point(u, l->first_time, e) != 0 || spill_drain(&l->frees, add_frees, u, e) != 0)
        return -1;
    while ((there = next_alloc(u, e)) != 0) {
        if (there < 0 || add_alloc(u, e) != 0)
            return -1;
    }
    return 0;
}

static int end_pool(struct plot_list *l, uint64_t name, struct err *e)
{
    struct use u = {.list = l};
    if (l->allocs.len == 0)
        return 0;
    if (list_pool(l, name, e) != 0)
        return -1;
    column_reader_init(&u.reader, &l->allocs);
    int status = add_use(l, &u, e);
    column_reader_release(&u.reader);
    column_clear(&l->allocs);
    struct listed_plot *plot = &l->pools.plots.at[l->pools.plots.len - 1];
    plot->n = l->pools.points.len - plot->first;
    return status;
}

/* ---- records */

int plot_list_put(struct plot_list *l, enum record_type type, const void *recs, size_t n,
                  struct err *e)
{
    switch (type) {
    case REC_HEADER:
        l->on_demand = ((const struct rec_header *)recs)->on_demand != 0;
        return 0;
    case REC_FRAME_SET:
        l->sets++;
        return 0;
    case REC_FRAME:
        put_frames(l, recs, n);
        return 0;
    case REC_PLOT: {
        const struct rec_plot *r = recs;
        struct listed_plot plot = {.name = r->name, .first = l->stored.points.len, .n = r->n};
        return vec_push(&l->stored.plots, plot) ? 0 : err_no_memory(e, "plots");
    }
    case REC_PLOT_POINT:
        return put_points(l, recs, n, e);
    case REC_POOL:
        l->pool = ((const struct rec_pool *)recs)->key;
        return hash_order_add(&l->order, l->pool, NULL, e);
    case REC_MEMORY_EVENT:
        return put_events(l, recs, n, e);
    case REC_POOL_END:
        return end_pool(l, ((const struct rec_pool_end *)recs)->name, e);
    default:
        return 0;
    }
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
