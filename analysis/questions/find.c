#include "analysis/questions/find.h"

#include <stdlib.h>

#include "base/heap.h"
#include "base/saturate.h"

/* The previous and next blocks in time, of one pool. */
struct neighbours {
    uint32_t pool;
    bool has_before, has_after;
    struct history_block before, after;
};

struct finder {
    struct find_result *r;
    struct neighbours near;
    bool failed;
    size_t heap; /* > 0: r->list is a heap of this size, oldest first */
};

static bool is_older(const struct found_block *a, const struct found_block *b)
{
    if (a->block.time != b->block.time)
        return a->block.time < b->block.time;
    if (a->block.pool != b->block.pool)
        return a->block.pool < b->block.pool;
    return a->block.index < b->block.index;
}

static int compare_time(const void *a, const void *b)
{
    return is_older(a, b) ? -1 : is_older(b, a);
}

/* ---- the newest `limit`: a heap whose top is the oldest kept */

static void keep(struct finder *f, const struct history_block *b, enum find_when when)
{
    struct find_result *r = f->r;
    struct found_block found = {.block = *b, .when = when};
    uint64_t limit = r->options.limit;
    if (limit == 0 || r->list.len < limit) {
        f->failed |= !vec_push(&r->list, found);
        return;
    }
    struct found_block *at = r->list.at;
    if (!f->heap) {
        f->heap = r->list.len;
        for (size_t i = f->heap / 2; i-- > 0;)
            HEAP_DOWN(at, f->heap, i, x, y, is_older(&at[x], &at[y]));
    }
    if (is_older(&at[0], &found)) {
        at[0] = found;
        HEAP_DOWN(at, f->heap, 0, x, y, is_older(&at[x], &at[y]));
    }
}

/* ---- */

static void flush_neighbours(struct finder *f)
{
    struct neighbours *n = &f->near;
    if (n->has_before)
        keep(f, &n->before, FIND_BEFORE);
    if (n->has_after)
        keep(f, &n->after, FIND_AFTER);
    n->has_before = n->has_after = false;
}

static void note_neighbour(struct finder *f, const struct history_block *b)
{
    struct neighbours *n = &f->near;
    int64_t time = f->r->options.time;
    if (b->pool != n->pool) {
        flush_neighbours(f);
        n->pool = b->pool;
    }
    if (b->time > time) {
        if (!n->has_after || b->time < n->after.time)
            n->after = *b;
        n->has_after = true;
        return;
    }
    if (!n->has_before || b->freed > n->before.freed ||
        (b->freed == n->before.freed && b->time > n->before.time))
        n->before = *b;
    n->has_before = true;
}

static bool take(void *ctx, const struct history_block *b)
{
    struct finder *f = ctx;
    struct find_result *r = f->r;
    r->total++;
    if (!is_freed(b->freed)) {
        r->live++;
        r->live_bytes = saturating_add(r->live_bytes, b->size);
    }
    if (!r->options.has_time)
        keep(f, b, FIND_ANY);
    else if (history_is_live(b, r->options.time))
        keep(f, b, FIND_AT);
    else
        note_neighbour(f, b);
    return !f->failed;
}

/* ---- remaining columns */

static int compare_place(const void *a, const void *b)
{
    const struct found_block *x = a;
    const struct found_block *y = b;
    if (x->block.pool != y->block.pool)
        return x->block.pool < y->block.pool ? -1 : 1;
    return (x->block.index > y->block.index) - (x->block.index < y->block.index);
}

/*
 * Completes the blocks of one pool in order of their index, so that each chunk of the columns is
 * read once.
 */
static int complete(struct found_block *list, size_t n, struct pool *p, struct err *e)
{
    struct column_reader allocs;
    struct column_reader frees;
    size_t done = 0;
    column_reader_init(&allocs, &p->allocs);
    column_reader_init(&frees, &p->frees);
    while (done < n && !e->code) {
        uint64_t chunk = list[done].block.index / COLUMN_CHUNK * (uint64_t)COLUMN_CHUNK;
        size_t run;
        size_t same;
        allocs.next = frees.next = chunk;
        const struct memory_alloc *a = column_reader_next(&allocs, &run, e);
        const struct memory_free *f = column_reader_next(&frees, &same, e);
        if (!a || !f)
            break;
        run = run < same ? run : same;
        for (; done < n && list[done].block.index - chunk < run; done++) {
            size_t at = (size_t)(list[done].block.index - chunk);
            list[done].thread = memory_alloc_thread(&a[at]);
            list[done].callstack = a[at].callstack;
            list[done].free_thread = memory_free_thread(&f[at]);
            list[done].free_callstack = f[at].callstack;
        }
    }
    column_reader_release(&allocs);
    column_reader_release(&frees);
    if (done < n && !e->code)
        err_set(e, ERR_INPUT, "a memory pool ends early");
    return e->code ? -1 : 0;
}

static int complete_all(struct find_result *r, const struct history *h, struct err *e)
{
    if (r->list.len == 0)
        return 0;
    qsort(r->list.at, r->list.len, sizeof *r->list.at, compare_place);
    for (size_t i = 0; i < r->list.len;) {
        uint32_t pool = r->list.at[i].block.pool;
        size_t n = 1;
        while (i + n < r->list.len && r->list.at[i + n].block.pool == pool)
            n++;
        if (complete(&r->list.at[i], n, h->selection->trace->memory.pools.at[pool], e) != 0)
            return -1;
        i += n;
    }
    qsort(r->list.at, r->list.len, sizeof *r->list.at, compare_time);
    return 0;
}

int find_run(struct find_result *r, const struct history *h, const struct find_options *options,
             struct err *e)
{
    *r = (struct find_result){.options = *options};
    struct finder f = {.r = r, .near.pool = UINT32_MAX};
    history_overlap(h, options->low, options->high, take, &f);
    flush_neighbours(&f);
    int status = f.failed ? err_no_memory(e, "what was found") : complete_all(r, h, e);
    if (status != 0)
        find_release(r);
    return status;
}

void find_release(struct find_result *r)
{
    vec_release(&r->list);
    *r = (struct find_result){0};
}
