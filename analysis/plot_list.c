#include "analysis/plot_list.h"

#define SPOOL_BUDGET ((size_t)16 << 20)
#define FIRST_FRAME 3 /* of an on-demand client: the one after connecting */

/* An allocation or a free: when, and how many bytes. */
struct change {
    int64_t time;
    uint64_t size;
};

static const struct pack_layout point_layout = {
    .element = sizeof(struct plot_point),
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
    spill_init(&l->frees, sizeof(struct change), 0, dir);
    if (spool_init(&l->spool, dir, SPOOL_BUDGET, e) != 0)
        return -1;
    column_init(&l->points, &l->spool, &point_layout, false);
    column_init(&l->allocs, &l->spool, &change_layout, false);
    return 0;
}

void plot_list_release(struct plot_list *l)
{
    if (l->points.spool) {
        column_release(&l->points);
        column_release(&l->allocs);
        spool_release(&l->spool);
    }
    spill_release(&l->frees);
    vec_release(&l->plots);
    *l = (struct plot_list){.frees.fd = -1};
}

void plot_list_wanted(bool wanted[REC_TYPE_COUNT])
{
    static const enum record_type types[] = {REC_HEADER,  REC_FRAME_SET,  REC_FRAME,
                                             REC_PLOT,    REC_PLOT_POINT, REC_MEMORY_EVENT,
                                             REC_POOL_END};
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
        struct plot_point *p = column_append(&l->points, e);
        if (!p)
            return -1;
        *p = (struct plot_point){r[i].time, r[i].value};
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

#define POINTS_AT_ONCE 1024

struct use {
    struct plot_list *list;
    uint64_t name;
    struct column_reader reader;
    const struct change *allocs; /* the run at hand */
    size_t at, n;
    double bytes;
    size_t count;
    struct plot_point points[POINTS_AT_ONCE];
};

static int flush_use(struct use *u, struct err *e)
{
    size_t n = u->count;
    u->count = 0;
    return n ? u->list->sink.put(u->list->sink.ctx, u->name, u->points, n, e) : 0;
}

static int add_point(struct use *u, int64_t time, struct err *e)
{
    u->points[u->count++] = (struct plot_point){time, u->bytes};
    return u->count == POINTS_AT_ONCE ? flush_use(u, e) : 0;
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

static int put_use(struct plot_list *l, uint64_t name, struct err *e)
{
    struct use u = {.list = l, .name = name};
    int there;
    if (l->allocs.len == 0)
        return 0;
    column_reader_init(&u.reader, &l->allocs);
    int status = add_point(&u, l->first_time, e);
    if (status == 0)
        status = spill_drain(&l->frees, add_frees, &u, e);
    while (status == 0 && (there = next_alloc(&u, e)) != 0)
        status = there < 0 ? -1 : add_alloc(&u, e);
    if (status == 0)
        status = flush_use(&u, e);
    column_reader_release(&u.reader);
    column_clear(&l->allocs);
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
        if (!vec_push(&l->plots, (struct stored_plot){r->name, r->n}))
            return err_no_memory(e, "plots");
        return 0;
    }
    case REC_PLOT_POINT:
        return put_points(l, recs, n, e);
    case REC_MEMORY_EVENT:
        return put_events(l, recs, n, e);
    case REC_POOL_END:
        return put_use(l, ((const struct rec_pool_end *)recs)->name, e);
    default:
        return 0;
    }
}

int plot_list_finish(struct plot_list *l, struct err *e)
{
    struct column_reader reader;
    const struct plot_point *points;
    struct err none = {0};
    size_t n = 0, plot = 0;
    uint64_t left = l->plots.len ? l->plots.at[0].n : 0;
    int status = 0;
    column_reader_init(&reader, &l->points);
    while (status == 0 && (points = column_reader_next(&reader, &n, &none)) && n > 0) {
        for (size_t at = 0; status == 0 && at < n;) {
            while (left == 0)
                left = l->plots.at[++plot].n;
            size_t part = n - at < left ? n - at : (size_t)left;
            status = l->sink.put(l->sink.ctx, l->plots.at[plot].name, points + at, part, e);
            at += part;
            left -= part;
        }
    }
    if (status == 0 && none.code != ERR_NONE) {
        *e = none;
        status = -1;
    }
    column_reader_release(&reader);
    return status;
}
