#include "analysis/csvexport/pool_use.h"

#include <stdbool.h>

#define TOGETHER 4096u /* allocations that become points together */

void pool_use_init(struct pool_use *u, struct column *points, const char *dir)
{
    *u = (struct pool_use){.points = points};
    u->frees.bound = u->allocs.bound = POOL_USE_BOUND;
    u->frees.file.dir = u->allocs.file.dir = dir;
}

void pool_use_release(struct pool_use *u)
{
    due_queue_release(&u->frees);
    due_queue_release(&u->allocs);
}

/* The flipped sign bit makes times order as unsigned numbers. */
static uint64_t key_of(int64_t time)
{
    return (uint64_t)time ^ UINT64_C(1) << 63;
}

static int add_point(struct pool_use *u, int64_t time, struct err *e)
{
    struct listed_point *p = column_append(u->points, e);
    if (!p)
        return -1;
    *p = (struct listed_point){time, u->bytes};
    return 0;
}

/* Items of a queue that are due. */
struct front {
    struct due_queue *queue;
    const struct due_item *at;
    size_t n;
};

/* Makes the next item ready unless there is none. */
static int look(struct front *f, uint64_t until, struct err *e)
{
    return f->n ? 0 : due_queue_take(f->queue, until, &f->at, &f->n, e);
}

/* Adds a point for each allocation and each free until then. */
static int add_until(struct pool_use *u, uint64_t until, struct err *e)
{
    struct front frees = {.queue = &u->frees}, allocs = {.queue = &u->allocs};
    for (;;) {
        if (look(&frees, until, e) != 0 || look(&allocs, until, e) != 0)
            return -1;
        if (!frees.n && !allocs.n)
            return 0;
        bool freed = frees.n && (!allocs.n || frees.at->key <= allocs.at->key);
        struct front *f = freed ? &frees : &allocs;
        double bytes = (double)(int64_t)f->at->value;
        u->bytes += freed ? -bytes : bytes;
        if (add_point(u, (int64_t)(f->at->key ^ UINT64_C(1) << 63), e) != 0)
            return -1;
        f->at++;
        f->n--;
    }
}

int pool_use_begin(struct pool_use *u, int64_t time, struct err *e)
{
    u->bytes = 0;
    u->time = INT64_MIN;
    due_queue_restart(&u->frees);
    due_queue_restart(&u->allocs);
    return add_point(u, time, e);
}

int pool_use_add(struct pool_use *u, const struct rec_memory_event *r, size_t n, struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        /* Frees of a time precede its allocations, so only earlier times are complete. */
        if (r[i].time_alloc > u->time) {
            if (u->allocs.count >= TOGETHER && add_until(u, key_of(u->time), e) != 0)
                return -1;
            u->time = r[i].time_alloc;
        }
        if ((is_freed(r[i].time_free) &&
             due_queue_put(&u->frees, key_of(r[i].time_free), r[i].size, e) != 0) ||
            due_queue_put(&u->allocs, key_of(r[i].time_alloc), r[i].size, e) != 0)
            return -1;
    }
    return 0;
}

int pool_use_end(struct pool_use *u, struct err *e)
{
    return add_until(u, UINT64_MAX, e);
}
