#include "analysis/csvexport/pool_use.h"

#define SORT_BYTES ((size_t)16 << 20)

/* An allocation or a free: its time, and its change of use in bytes. */
struct change {
    int64_t time;
    uint64_t size;
};

static const struct pack_layout change_layout = {
    .element = sizeof(struct change),
    .count = 2,
    .fields = {{0, 8, PACK_STEP}, {8, 8, PACK_OFFSET}},
};

void pool_use_init(struct pool_use *u, struct column *points, struct spool *spool, const char *dir)
{
    *u = (struct pool_use){.points = points, .waiting_max = POOL_USE_WAITING};
    spill_init(&u->late_frees, sizeof(struct change), SORT_BYTES / sizeof(struct change), dir);
    column_init(&u->late_allocs, spool, &change_layout, false);
}

void pool_use_release(struct pool_use *u)
{
    radix_heap_release(&u->frees);
    vec_release(&u->held);
    spill_release(&u->late_frees);
    if (u->late_allocs.spool)
        column_release(&u->late_allocs);
    *u = (struct pool_use){.late_frees.fd = -1};
}

static int no_room(struct err *e)
{
    return err_no_memory(e, "frees of a memory pool");
}

static inline int add_point(struct pool_use *u, int64_t time, struct err *e)
{
    struct listed_point *p = column_append(u->points, e);
    if (!p)
        return -1;
    *p = (struct listed_point){time, u->bytes};
    return 0;
}

static inline int add_alloc(struct pool_use *u, int64_t time, uint64_t size, struct err *e)
{
    u->bytes += (double)(int64_t)size;
    return add_point(u, time, e);
}

static inline int add_free(struct pool_use *u, int64_t time, uint64_t size, struct err *e)
{
    u->bytes -= (double)(int64_t)size;
    return add_point(u, time, e);
}

/* ---- while the pending frees fit in memory */

static int add_frees_until(struct pool_use *u, int64_t time, struct err *e)
{
    struct radix_item item;
    uint64_t key;
    while (radix_heap_peek(&u->frees, &key) && radix_heap_time(key) <= time) {
        if (!radix_heap_pop(&u->frees, &item))
            return no_room(e);
        if (add_free(u, radix_heap_time(item.key), item.value, e) != 0)
            return -1;
    }
    return 0;
}

static int add_held(struct pool_use *u, struct err *e)
{
    if (u->held.len > 0 && add_frees_until(u, u->held_time, e) != 0)
        return -1;
    for (size_t i = 0; i < u->held.len; i++) {
        if (add_alloc(u, u->held_time, u->held.at[i], e) != 0)
            return -1;
    }
    u->held.len = 0;
    return 0;
}

static int add_event(struct pool_use *u, const struct rec_memory_event *r, struct err *e)
{
    if (is_freed(r->time_free) &&
        !radix_heap_push(&u->frees, radix_heap_key(r->time_free), r->size))
        return no_room(e);
    if (r->time_alloc != u->held_time && add_held(u, e) != 0)
        return -1;
    u->held_time = r->time_alloc;
    return vec_push(&u->held, r->size) ? 0 : no_room(e);
}

/* ---- when they do not */

static int keep_alloc(struct pool_use *u, int64_t time, uint64_t size, struct err *e)
{
    struct change *c = column_append(&u->late_allocs, e);
    if (!c)
        return -1;
    *c = (struct change){time, size};
    return 0;
}

static int start_sorting(struct pool_use *u, struct err *e)
{
    struct radix_item item;
    u->sorting = true;
    for (size_t i = 0; i < u->held.len; i++) {
        if (keep_alloc(u, u->held_time, u->held.at[i], e) != 0)
            return -1;
    }
    vec_release(&u->held);
    while (u->frees.count > 0) {
        if (!radix_heap_pop(&u->frees, &item))
            return no_room(e);
        struct change freed = {radix_heap_time(item.key), item.value};
        if (spill_add(&u->late_frees, &freed, 1, e) != 0)
            return -1;
    }
    radix_heap_release(&u->frees);
    return 0;
}

static int keep_event(struct pool_use *u, const struct rec_memory_event *r, struct err *e)
{
    if (keep_alloc(u, r->time_alloc, r->size, e) != 0)
        return -1;
    struct change freed = {r->time_free, r->size};
    return is_freed(freed.time) ? spill_add(&u->late_frees, &freed, 1, e) : 0;
}

struct late {
    struct pool_use *use;
    struct column_reader reader;
    const struct change *allocs; /* the current run */
    size_t at, n;
};

/* The next allocation. Returns 1, 0 if there is none, -1 on an error. */
static int next_alloc(struct late *l, struct err *e)
{
    struct err none = {0};
    if (l->at < l->n)
        return 1;
    l->at = 0;
    l->allocs = column_reader_next(&l->reader, &l->n, &none);
    if (l->allocs && l->n > 0)
        return 1;
    l->n = 0;
    if (none.code == ERR_NONE)
        return 0;
    *e = none;
    return -1;
}

static int take_alloc(struct late *l, struct err *e)
{
    const struct change *c = &l->allocs[l->at++];
    return add_alloc(l->use, c->time, c->size, e);
}

static int add_late_frees(void *ctx, const void *recs, size_t n, struct err *e)
{
    struct late *l = ctx;
    const struct change *c = recs;
    for (size_t i = 0; i < n; i++) {
        int there;
        while ((there = next_alloc(l, e)) > 0 && l->allocs[l->at].time < c[i].time) {
            if (take_alloc(l, e) != 0)
                return -1;
        }
        if (there < 0 || add_free(l->use, c[i].time, c[i].size, e) != 0)
            return -1;
    }
    return 0;
}

static int add_late(struct pool_use *u, struct err *e)
{
    struct late l = {.use = u};
    int there = 0;
    column_reader_init(&l.reader, &u->late_allocs);
    int status = spill_drain(&u->late_frees, add_late_frees, &l, e);
    while (status == 0 && (there = next_alloc(&l, e)) > 0)
        status = take_alloc(&l, e);
    column_reader_release(&l.reader);
    column_clear(&u->late_allocs);
    return status != 0 || there < 0 ? -1 : 0;
}

/* ---- a pool */

int pool_use_begin(struct pool_use *u, int64_t time, struct err *e)
{
    u->bytes = 0;
    u->sorting = false;
    radix_heap_release(&u->frees);
    u->held.len = 0;
    return add_point(u, time, e);
}

int pool_use_add(struct pool_use *u, const struct rec_memory_event *r, size_t n, struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        size_t waiting = u->frees.count > u->held.len ? u->frees.count : u->held.len;
        if (!u->sorting && waiting >= u->waiting_max && start_sorting(u, e) != 0)
            return -1;
        if ((u->sorting ? keep_event(u, &r[i], e) : add_event(u, &r[i], e)) != 0)
            return -1;
    }
    return 0;
}

int pool_use_end(struct pool_use *u, struct err *e)
{
    if (u->sorting)
        return add_late(u, e);
    return add_held(u, e) != 0 ? -1 : add_frees_until(u, INT64_MAX, e);
}
