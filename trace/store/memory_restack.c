/* Other call stacks for recorded events: columns cannot be changed, so they are written anew. */

#include "trace/store/memory.h"

struct restacking {
    struct memory *memory;
    int (*event)(void *ctx, struct memory_alloc *alloc, struct memory_free *freed, struct err *e);
    int (*live)(void *ctx, struct live_block *block, struct err *e);
    void *ctx;
    struct column allocs, frees; /* of the current pool */
};

/* An allocation counts for its new call stack. */
static int move_sum(struct memory *m, uint32_t from, const struct memory_alloc *a, struct err *e)
{
    struct callstack_sum *sum =
        from < m->stack_sums.len && a->callstack != from ? &m->stack_sums.at[from] : NULL;
    uint64_t size = memory_alloc_size(a);
    if (!sum || !sum->count)
        return 0;
    sum->count--;
    sum->bytes -= size < sum->bytes ? size : sum->bytes;
    return memory_sum_stack(m, a->callstack, 1, size, e);
}

static int take_event(struct restacking *r, struct memory_alloc a, struct memory_free f,
                      struct err *e)
{
    uint32_t before = a.callstack;
    if (r->event(r->ctx, &a, &f, e) != 0 || move_sum(r->memory, before, &a, e) != 0)
        return -1;
    struct memory_alloc *alloc = column_append(&r->allocs, e);
    if (!alloc)
        return -1;
    *alloc = a;
    struct memory_free *freed = column_append(&r->frees, e);
    if (!freed)
        return -1;
    *freed = f;
    return 0;
}

static int take_events(struct restacking *r, struct pool *p, struct err *e)
{
    struct column_reader allocs, frees;
    size_t n, m;
    int status = 0;
    column_reader_init(&allocs, &p->allocs);
    column_reader_init(&frees, &p->frees);
    for (;;) {
        const struct memory_alloc *a = column_reader_next(&allocs, &n, e);
        const struct memory_free *f = column_reader_next(&frees, &m, e);
        status = e->code ? -1 : status;
        /* Both columns have the same length, and so do their chunks. */
        for (size_t i = 0; i < n && i < m && status == 0; i++)
            status = take_event(r, a[i], f[i], e);
        if (status != 0 || !a || !f)
            break;
    }
    column_reader_release(&allocs);
    column_reader_release(&frees);
    return status;
}

static int take_live(struct restacking *r, struct pool *p, struct err *e)
{
    for (size_t i = 0; i < p->live.groups * LIVE_STRIDE && p->live.count; i++) {
        struct live_slot *slot = &p->live.slots[i];
        if (i % LIVE_STRIDE == LIVE_GROUP || !*live_set_tag(&p->live, i))
            continue;
        struct live_block block = live_slot_block(slot);
        if (r->live(r->ctx, &block, e) != 0)
            return -1;
        slot->callstack = block.callstack;
    }
    return 0;
}

static int take_pool(struct restacking *r, struct pool *p, struct err *e)
{
    column_init(&r->allocs, p->allocs.spool, p->allocs.layout, p->allocs.patchable);
    column_init(&r->frees, p->frees.spool, p->frees.layout, p->frees.patchable);
    int status = take_events(r, p, e);
    if (status == 0) {
        column_swap(&p->allocs, &r->allocs);
        column_swap(&p->frees, &r->frees);
        status = take_live(r, p, e);
    }
    column_release(&r->allocs);
    column_release(&r->frees);
    return status;
}

int memory_restack(struct memory *m,
                   int (*event)(void *ctx, struct memory_alloc *alloc, struct memory_free *freed,
                                struct err *e),
                   int (*live)(void *ctx, struct live_block *block, struct err *e), void *ctx,
                   struct err *e)
{
    struct restacking r = {.memory = m, .event = event, .live = live, .ctx = ctx};
    int status = 0;
    for (size_t i = 0; i < m->pools.len && status == 0; i++)
        status = take_pool(&r, m->pools.at[i], e);
    return status;
}
