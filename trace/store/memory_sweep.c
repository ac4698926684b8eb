/*
 * Replays the stored history of the pools in order of time. Allocations are already in that order.
 * They are taken some hundred at a time. Their frees wait in a queue (base/due_queue.h) until they
 * are due, and the two are merged.
 */

#include <stdlib.h>
#include <string.h>

#include "base/due_queue.h"
#include "trace/store/memory_steps.h"

#define ALLOCATIONS 1024u /* taken at a time */
#define FREES_AHEAD 8u    /* whose blocks are prefetched */

/* A free that is not due yet. */
struct pending {
    struct live_slot block;
    uint64_t number_thread; /* 48 bits: of the allocation in the sweep; 16: of the free's thread */
    uint32_t pool;
    uint32_t callstack;
};

/* An allocation that was taken. */
struct taken {
    struct rec_memory_event ev;
    int64_t now; /* ns; later than its own time in some files */
    uint64_t index;
    uint32_t pool;
};

struct memory_sweep {
    struct memory *memory;
    const struct memory_batch_sink *to;
    struct memory_batch *batch;
    struct taken taken[ALLOCATIONS];
    size_t taken_count;
    uint64_t number;            /* of the next allocation to be merged */
    struct due_queue queue;     /* time_key of a free → its slot in `pending` */
    const struct due_item *due; /* the front of the queue: `at` … `ready` */
    size_t at, ready;
    bool all_due; /* all frees that are due now were taken */
    VEC(struct pending) pending;
    VEC(uint32_t) vacant;
    int64_t now; /* of the newest allocation taken */
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

/* The flipped sign bit makes times order as unsigned numbers. */
static uint64_t time_key(int64_t time)
{
    return (uint64_t)time ^ UINT64_C(1) << 63;
}

static int64_t time_of_key(uint64_t key)
{
    return (int64_t)(key ^ UINT64_C(1) << 63);
}

/* ---- frees */

/* The room for the next step; NULL with `e`. */
static struct memory_op *next_step(struct memory_sweep *s, struct err *e)
{
    if (s->batch->n == SWEEP_BATCH && s->to->put(s->to->ctx, &s->batch, e) != 0)
        return NULL;
    return &s->batch->ops[s->batch->n++];
}

static uint64_t number_of(const struct pending *p)
{
    return p->number_thread & MEMORY_BITS48;
}

static int put_free(struct memory_sweep *s, const struct due_item *item, struct err *e)
{
    const struct pending *p = &s->pending.at[item->value];
    struct memory_op *op = next_step(s, e);
    if (!op)
        return -1;
    *op = (struct memory_op){.kind = MEMORY_FREE,
                             .pool = p->pool,
                             .time = time_of_key(item->key),
                             .thread = (uint16_t)(p->number_thread >> 48),
                             .callstack = p->callstack,
                             .block = live_slot_block(&p->block),
                             .freed = NEVER_FREED};
    return pageable_push(s->memory->pageable, &s->vacant, (uint32_t)item->value)
               ? 0
               : err_no_memory(e, "pending frees");
}

/* Delivers the frees up to `until` of blocks that were delivered. */
static int put_frees(struct memory_sweep *s, uint64_t until, uint64_t taken_until, struct err *e)
{
    for (;;) {
        if (s->at == s->ready) {
            s->at = s->ready = 0;
            if (!s->all_due && due_queue_take(&s->queue, taken_until, &s->due, &s->ready, e) != 0)
                return -1;
            s->all_due = s->ready == 0;
            if (s->all_due)
                return 0;
        }
        const struct due_item *item = &s->due[s->at];
        if (item->key > until ||
            (item->key == until && number_of(&s->pending.at[item->value]) >= s->number))
            return 0;
        if (s->ready - s->at > FREES_AHEAD)
            __builtin_prefetch(&s->pending.at[item[FREES_AHEAD].value]);
        if (put_free(s, item, e) != 0)
            return -1;
        s->at++;
    }
}

static struct live_block block_of(const struct taken *a)
{
    return (struct live_block){.ptr = a->ev.ptr,
                               .size = a->ev.size,
                               .time = a->now,
                               .index = a->index,
                               .callstack = a->ev.callstack_alloc,
                               .thread = a->ev.thread_alloc};
}

static int expect_free(struct memory_sweep *s, const struct taken *a, struct err *e)
{
    uint32_t slot;
    if (s->vacant.len) {
        slot = s->vacant.at[--s->vacant.len];
    } else {
        if (!pageable_reserve(s->memory->pageable, &s->pending, s->pending.len + 1))
            return err_no_memory(e, "pending frees");
        slot = (uint32_t)s->pending.len++;
    }
    const struct live_block block = block_of(a);
    struct pending *p = &s->pending.at[slot];
    live_slot_fill(&p->block, &block);
    p->number_thread = (s->number + s->taken_count) | (uint64_t)a->ev.thread_free << 48;
    p->pool = a->pool;
    p->callstack = a->ev.callstack_free;
    int64_t time = a->ev.time_free < s->now ? s->now : a->ev.time_free;
    return due_queue_put(&s->queue, time_key(time), slot, e);
}

/* ---- allocations */

static int put_alloc(struct memory_sweep *s, const struct taken *a, struct err *e)
{
    struct memory_op *op = next_step(s, e);
    if (!op)
        return -1;
    *op = (struct memory_op){.kind = MEMORY_ALLOC,
                             .pool = a->pool,
                             .time = a->now,
                             .thread = a->ev.thread_alloc,
                             .callstack = a->ev.callstack_alloc,
                             .block = block_of(a),
                             .freed = a->ev.time_free};
    s->number++;
    return 0;
}

/* Delivers the allocations that were taken, and the frees before them. */
static int merge(struct memory_sweep *s, struct err *e)
{
    s->all_due = false;
    for (size_t i = 0; i < s->taken_count; i++) {
        const struct taken *a = &s->taken[i];
        if (put_frees(s, time_key(a->ev.time_alloc), time_key(s->now), e) != 0 ||
            put_alloc(s, a, e) != 0)
            return -1;
    }
    s->taken_count = 0;
    return 0;
}

int memory_sweep_take(struct memory_sweep *s, uint32_t pool, uint64_t index,
                      const struct rec_memory_event *ev, struct err *e)
{
    if (s->taken_count == ALLOCATIONS && merge(s, e) != 0)
        return -1;
    /* Columns of an unusual file may be out of order: time never runs backwards here. */
    if (ev->time_alloc > s->now)
        s->now = ev->time_alloc;
    struct taken *a = &s->taken[s->taken_count];
    *a = (struct taken){.ev = *ev, .now = s->now, .index = index, .pool = pool};
    if (is_freed(ev->time_free) && expect_free(s, a, e) != 0)
        return -1;
    s->taken_count++;
    return 0;
}

/* Takes the pool's next allocation. */
static int take_alloc(struct memory_sweep *s, const struct pool_cursor *c, struct err *e)
{
    const struct rec_memory_event ev = {.ptr = c->alloc->ptr,
                                        .size = memory_alloc_size(c->alloc),
                                        .time_alloc = c->alloc->time,
                                        .time_free = memory_free_time(c->alloc, c->fill),
                                        .callstack_alloc = c->alloc->callstack,
                                        .callstack_free = c->fill->callstack,
                                        .thread_alloc = memory_alloc_thread(c->alloc),
                                        .thread_free = memory_free_thread(c->fill)};
    return memory_sweep_take(s, c->number, c->index, &ev, e);
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

static int sweep_pools(struct memory_sweep *s, struct pool_cursor **heap, size_t n, struct err *e)
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
            if (take_alloc(s, c, e) != 0 || cursor_step(c, &more, e) != 0)
                return -1;
        } while (more && c->alloc->time <= until);
        if (!more)
            heap[0] = heap[--n];
        cursors_sift(heap, n, 0);
    }
    return memory_sweep_end(s, e);
}

int memory_sweep_end(struct memory_sweep *s, struct err *e)
{
    if (merge(s, e) != 0)
        return -1;
    s->all_due = false;
    if (put_frees(s, UINT64_MAX, UINT64_MAX, e) != 0)
        return -1;
    due_queue_restart(&s->queue);
    s->now = INT64_MIN;
    return s->batch->n ? s->to->put(s->to->ctx, &s->batch, e) : 0;
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

static int sweep_columns(struct memory_sweep *s, int64_t only, struct err *e)
{
    size_t pools = s->memory->pools.len;
    struct pool_cursor *cursors = calloc(pools + 1, sizeof *cursors);
    struct pool_cursor **heap = calloc(pools + 1, sizeof *heap);
    int status = -1;
    size_t n;
    if (!cursors || !heap)
        err_no_memory(e, "a sweep over the pools");
    else if (sweep_open(s->memory, only, cursors, heap, &n, e) == 0)
        status = sweep_pools(s, heap, n, e);
    for (size_t i = 0; cursors && i < pools; i++) {
        column_reader_release(&cursors[i].allocs);
        column_reader_release(&cursors[i].frees);
    }
    free(cursors);
    free(heap);
    return status;
}

int memory_sweep_batches(struct memory *m, int64_t only, struct memory_batch *first,
                         const struct memory_batch_sink *to, struct err *e)
{
    if (m->only.is)
        return memory_refuse("the trace does not keep when each block was allocated and freed", e);
    struct memory_sweep *s = calloc(1, sizeof *s);
    if (!s)
        return err_no_memory(e, "a sweep over the pools");
    *s = (struct memory_sweep){.memory = m, .to = to, .batch = first, .now = INT64_MIN};
    s->queue.bound = m->pageable && m->pageable->dir ? m->pageable->budget : 0;
    s->queue.file.dir = m->pageable ? m->pageable->dir : NULL;
    first->n = 0;
    int status =
        m->replay.run ? m->replay.run(m->replay.ctx, only, s, e) : sweep_columns(s, only, e);
    due_queue_release(&s->queue);
    pageable_vec_release(m->pageable, &s->pending);
    pageable_vec_release(m->pageable, &s->vacant);
    if (status != 0 && m->pageable)
        pageable_explain(m->pageable, e);
    free(s);
    return status;
}

static int tell(void *ctx, struct memory_batch **batch, struct err *e)
{
    size_t n = (*batch)->n;
    (*batch)->n = 0;
    return memory_observe(ctx, (*batch)->ops, n, e);
}

int memory_sweep(struct memory *m, int64_t only, const struct memory_observer *to, struct err *e)
{
    struct memory_observer copy = *to;
    const struct memory_batch_sink sink = {.ctx = &copy, .put = tell};
    struct memory_batch *batch = calloc(1, sizeof *batch);
    if (!batch)
        return err_no_memory(e, "a sweep over the pools");
    int status = memory_sweep_batches(m, only, batch, &sink, e);
    free(batch);
    return status;
}
