/*
 * Replays the stored history of the pools in order of time. Allocations are already in that order;
 * their frees wait in a heap (base/radix_heap.h), which holds as many entries as blocks are live.
 */

#include <stdlib.h>

#include "base/radix_heap.h"
#include "trace/store/memory.h"

/* A pending free. */
struct pending {
    struct live_block block;
    uint32_t pool;
    uint32_t callstack;
    uint16_t thread;
};

struct sweep {
    struct memory *memory;
    const struct memory_observer *to;
    struct radix_heap heap; /* radix_heap_key of a free → its slot in `pending` */
    VEC(struct pending) pending;
    VEC(uint32_t) vacant;
    int64_t now;
};

/* A pool being read. */
struct pool_cursor {
    uint32_t number;
    struct column_reader allocs;
    struct column_reader frees;
    const struct memory_alloc *alloc;
    const struct memory_free *fill;
    size_t left;    /* allocations left in this run */
    uint64_t index; /* of *alloc in the pool */
};

/* Delivers every free at or before `until`. */
static int sweep_frees(struct sweep *s, uint64_t until, struct err *e)
{
    struct radix_item item;
    uint64_t key;
    while (radix_heap_peek(&s->heap, &key) && key <= until) {
        if (!radix_heap_pop(&s->heap, &item))
            return err_no_memory(e, "pending frees");
        uint32_t slot = (uint32_t)item.value;
        const struct pending *p = &s->pending.at[slot];
        s->now = radix_heap_time(item.key);
        struct memory_op op = {.kind = MEMORY_FREE,
                               .pool = p->pool,
                               .time = s->now,
                               .thread = p->thread,
                               .callstack = p->callstack,
                               .block = p->block,
                               .freed = NEVER_FREED};
        if (!pageable_push(s->memory->pageable, &s->vacant, slot))
            return err_no_memory(e, "pending frees");
        if (s->to->op(s->to->ctx, &op, e) != 0)
            return -1;
    }
    return 0;
}

static bool sweep_expect_free(struct sweep *s, const struct pool_cursor *c,
                              const struct live_block *block, int64_t time)
{
    uint32_t slot;
    if (s->vacant.len) {
        slot = s->vacant.at[--s->vacant.len];
    } else {
        if (!pageable_reserve(s->memory->pageable, &s->pending, s->pending.len + 1))
            return false;
        slot = (uint32_t)s->pending.len++;
        s->heap.things = s->pending.at;
        s->heap.stride = sizeof *s->pending.at;
    }
    s->pending.at[slot] = (struct pending){.block = *block,
                                           .pool = c->number,
                                           .callstack = c->fill->callstack,
                                           .thread = memory_free_thread(c->fill)};
    return radix_heap_push(&s->heap, radix_heap_key(time < s->now ? s->now : time), slot);
}

/*
 * Whether nothing happens between an allocation and its free: then the free need not wait in the
 * heap. If the next allocation is not loaded, it must wait. `until` is the next time in other
 * pools.
 */
static bool is_next(const struct sweep *s, const struct pool_cursor *c, int64_t freed,
                    int64_t until)
{
    uint64_t least;
    return c->left > 1 && freed < c->alloc[1].time && freed < until && freed >= s->now &&
           (!radix_heap_peek(&s->heap, &least) || radix_heap_key(freed) < least);
}

static int sweep_free_at_once(struct sweep *s, const struct pool_cursor *c, struct memory_op *op,
                              struct err *e)
{
    op->kind = MEMORY_FREE;
    op->time = s->now = op->freed;
    op->thread = memory_free_thread(c->fill);
    op->callstack = c->fill->callstack;
    op->freed = NEVER_FREED;
    return s->to->op(s->to->ctx, op, e);
}

/* Delivers the pool's next allocation, after the frees that precede it. */
static int sweep_alloc(struct sweep *s, const struct pool_cursor *c, int64_t until, struct err *e)
{
    if (sweep_frees(s, radix_heap_key(c->alloc->time), e) != 0)
        return -1;
    /* Columns of an unusual file may be out of order: time never runs backwards here. */
    if (c->alloc->time > s->now)
        s->now = c->alloc->time;
    struct memory_op op = {.kind = MEMORY_ALLOC,
                           .pool = c->number,
                           .time = s->now,
                           .thread = memory_alloc_thread(c->alloc),
                           .callstack = c->alloc->callstack,
                           .freed = memory_free_time(c->alloc, c->fill)};
    op.block = (struct live_block){.ptr = c->alloc->ptr,
                                   .size = memory_alloc_size(c->alloc),
                                   .time = s->now,
                                   .index = c->index,
                                   .callstack = c->alloc->callstack,
                                   .thread = op.thread};
    if (s->to->op(s->to->ctx, &op, e) != 0)
        return -1;
    if (!is_freed(op.freed))
        return 0;
    if (is_next(s, c, op.freed, until))
        return sweep_free_at_once(s, c, &op, e);
    return sweep_expect_free(s, c, &op.block, op.freed) ? 0 : err_no_memory(e, "pending frees");
}

/* Advances to the next allocation. *more is false at the end of the pool. */
static int cursor_step(struct pool_cursor *c, bool *more, struct err *e)
{
    *more = true;
    if (c->left > 1) {
        c->left--;
        c->index++;
        c->alloc++;
        c->fill++;
        return 0;
    }
    size_t n;
    c->index = c->allocs.next;
    c->alloc = column_reader_next(&c->allocs, &c->left, e);
    c->fill = column_reader_next(&c->frees, &n, e);
    if (c->alloc && c->fill)
        return 0;
    *more = false;
    return c->allocs.next >= c->allocs.column->len && c->frees.next >= c->frees.column->len ? 0
                                                                                            : -1;
}

/* Restores the heap order of cursors (smallest time first) downwards from `i`. */
static void cursors_sift(struct pool_cursor **heap, size_t n, size_t i)
{
    for (;;) {
        size_t least = i;
        for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < n; child++) {
            if (heap[child]->alloc->time < heap[least]->alloc->time)
                least = child;
        }
        if (least == i)
            return;
        struct pool_cursor *t = heap[i];
        heap[i] = heap[least];
        heap[least] = t;
        i = least;
    }
}

static int sweep_pools(struct sweep *s, struct pool_cursor **heap, size_t n, struct err *e)
{
    for (size_t i = n / 2; i-- > 0;)
        cursors_sift(heap, n, i);
    while (n) {
        struct pool_cursor *c = heap[0];
        int64_t until = INT64_MAX;
        for (size_t child = 1; child <= 2 && child < n; child++) {
            if (heap[child]->alloc->time < until)
                until = heap[child]->alloc->time;
        }
        bool more;
        do {
            if (sweep_alloc(s, c, until, e) != 0 || cursor_step(c, &more, e) != 0)
                return -1;
        } while (more && c->alloc->time <= until);
        if (!more)
            heap[0] = heap[--n];
        cursors_sift(heap, n, 0);
    }
    return sweep_frees(s, UINT64_MAX, e);
}

static int sweep_open(struct memory *m, int64_t only, struct pool_cursor *cursors,
                      struct pool_cursor **heap, size_t *n, struct err *e)
{
    *n = 0;
    for (size_t i = 0; i < m->pools.len; i++) {
        struct pool_cursor *c = &cursors[i];
        c->number = (uint32_t)i;
        column_reader_init(&c->allocs, &m->pools.at[i]->allocs);
        column_reader_init(&c->frees, &m->pools.at[i]->frees);
        if (only >= 0 && (size_t)only != i)
            continue;
        bool more;
        if (cursor_step(c, &more, e) != 0)
            return -1;
        if (more)
            heap[(*n)++] = c;
    }
    return 0;
}

int memory_sweep(struct memory *m, int64_t only, const struct memory_observer *to, struct err *e)
{
    struct sweep s = {.memory = m, .to = to, .now = INT64_MIN, .heap.pageable = m->pageable};
    size_t pools = m->pools.len;
    struct pool_cursor *cursors = calloc(pools + 1, sizeof *cursors);
    struct pool_cursor **heap = calloc(pools + 1, sizeof *heap);
    int status = -1;
    size_t n;
    if (!cursors || !heap)
        err_no_memory(e, "a sweep over the pools");
    else if (sweep_open(m, only, cursors, heap, &n, e) == 0)
        status = sweep_pools(&s, heap, n, e);
    for (size_t i = 0; cursors && i < pools; i++) {
        column_reader_release(&cursors[i].allocs);
        column_reader_release(&cursors[i].frees);
    }
    if (status != 0 && m->pageable)
        pageable_explain(m->pageable, e);
    radix_heap_release(&s.heap);
    pageable_vec_release(m->pageable, &s.pending);
    pageable_vec_release(m->pageable, &s.vacant);
    free(cursors);
    free(heap);
    return status;
}
