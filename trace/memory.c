#include "trace/memory.h"

#include <stdlib.h>

#include "base/saturate.h"

#define BITS48 ((UINT64_C(1) << 48) - 1)

static const struct pack_layout alloc_layout = {
    .element = sizeof(struct memory_alloc),
    .count = 5,
    .fields = {{0, 8, PACK_OFFSET},   /* ptr */
               {8, 6, PACK_OFFSET},   /* size */
               {14, 2, PACK_OFFSET},  /* thread */
               {16, 8, PACK_STEP},    /* time */
               {24, 4, PACK_OFFSET}}, /* call stack */
};

static const struct pack_layout free_layout = {
    .element = sizeof(struct memory_free),
    .count = 3,
    .fields = {{0, 6, PACK_OFFSET},  /* time after the allocation */
               {6, 2, PACK_OFFSET},  /* thread */
               {8, 4, PACK_OFFSET}}, /* call stack */
};

void memory_init(struct memory *m, struct spool *spool)
{
    *m = (struct memory){.spool = spool};
}

static void pool_free(struct pool *p)
{
    column_release(&p->allocs);
    column_release(&p->frees);
    live_set_release(&p->live);
    free(p);
}

void memory_release(struct memory *m)
{
    for (size_t i = 0; i < m->pools.len; i++)
        pool_free(m->pools.at[i]);
    vec_release(&m->pools);
    map_release(&m->pool_numbers);
    vec_release(&m->faults);
    map_release(&m->fault_numbers);
    *m = (struct memory){0};
}

int memory_pool(struct memory *m, uint64_t key, uint32_t *number, struct err *e)
{
    uint64_t *found = map_find(&m->pool_numbers, key);
    if (!found && m->pools.len >= POOLS_MAX - 1) {
        m->pool_overflow++;
        key = POOL_OTHER;
        found = map_find(&m->pool_numbers, key);
    }
    if (found) {
        *number = (uint32_t)*found;
        return 0;
    }
    struct pool *p = calloc(1, sizeof *p);
    uint64_t *value =
        p && vec_reserve(&m->pools, m->pools.len + 1) ? map_add(&m->pool_numbers, key, NULL) : NULL;
    if (!value || !vec_push(&m->pools, p)) {
        free(p);
        return err_no_memory(e, "a memory pool");
    }
    p->key = key;
    p->number = (uint32_t)(m->pools.len - 1);
    p->totals.low_address = UINT64_MAX;
    p->last_time = INT64_MIN;
    column_init(&p->allocs, m->spool, &alloc_layout, false);
    column_init(&p->frees, m->spool, &free_layout, true);
    live_set_init(&p->live);
    *value = *number = p->number;
    return 0;
}

/* The block is still in its slot, also when the slot has just become vacant. */
static __attribute__((noinline)) int tell_observer(struct memory *m, enum memory_op_kind kind,
                                                   const struct pool *p,
                                                   const struct memory_place *at,
                                                   const struct live_slot *slot, struct err *e)
{
    struct memory_op op = {.kind = kind,
                           .pool = p->number,
                           .time = at->time,
                           .thread = at->thread,
                           .callstack = at->callstack,
                           .block = live_slot_block(slot),
                           .freed = -1};
    return m->observer.op(m->observer.ctx, &op, e);
}

static inline int observe(struct memory *m, enum memory_op_kind kind, const struct pool *p,
                          const struct memory_place *at, const struct live_slot *slot,
                          struct err *e)
{
    return __builtin_expect(m->observer.op != NULL, 0) ? tell_observer(m, kind, p, at, slot, e) : 0;
}

static inline int pool_append(struct pool *p, const struct live_block *b,
                              const struct memory_free *f, struct err *e)
{
    struct memory_alloc *alloc = column_append(&p->allocs, e);
    if (!alloc)
        return -1;
    *alloc = (struct memory_alloc){.ptr = b->ptr,
                                   .size_thread = b->size | (uint64_t)b->thread << 48,
                                   .time = b->time,
                                   .callstack = b->callstack};
    struct memory_free *fill = column_append(&p->frees, e);
    if (!fill) {
        column_drop_last(&p->allocs); /* the two columns stay in step */
        return -1;
    }
    *fill = *f;
    if (b->time < p->last_time)
        p->disorder++;
    else
        p->last_time = b->time;
    struct pool_totals *t = &p->totals;
    t->allocations++;
    t->total_bytes = saturating_add(t->total_bytes, b->size);
    uint64_t high = b->ptr > UINT64_MAX - b->size ? UINT64_MAX : b->ptr + b->size;
    if (b->ptr < t->low_address)
        t->low_address = b->ptr;
    if (high > t->high_address)
        t->high_address = high;
    return 0;
}

/* A free before its allocation has no place in the file: it counts as at the same time. */
static struct memory_free make_free(int64_t time_alloc, int64_t time, uint16_t thread,
                                    uint32_t callstack)
{
    uint64_t after = time > time_alloc ? (uint64_t)time - (uint64_t)time_alloc : 0;
    if (after > BITS48 - 1)
        after = BITS48 - 1;
    /* A time of -1 reads as live: a free in that nanosecond counts as in the next. */
    if ((uint64_t)time_alloc + after == UINT64_MAX)
        after++;
    return (struct memory_free){(after + 1) | (uint64_t)thread << 48, callstack};
}

static const struct memory_free still_live = {0, 0};

/* Fills in a free whose chunk is packed already. */
static __attribute__((noinline)) int log_free(struct pool *p, uint64_t index,
                                              struct memory_free fill, struct err *e)
{
    return column_patch_slow(&p->frees, index, &fill, e);
}

/*
 * Ends the life of a block, whose address has that hash: fill in its free, take it from the live
 * set, tell the observer.
 */
static inline __attribute__((always_inline)) int
pool_end_block(struct memory *m, struct pool *p, struct live_slot *slot, uint64_t hash,
               const struct memory_place *at, struct err *e)
{
    struct live_block block = live_slot_block(slot);
    struct memory_free fill = make_free(block.time, at->time, at->thread, at->callstack);
    struct memory_free *stored = column_raw(&p->frees, block.index, sizeof fill);
    if (__builtin_expect(stored != NULL, 1))
        *stored = fill;
    else if (log_free(p, block.index, fill, e) != 0)
        return -1;
    live_set_remove(&p->live, slot, hash);
    p->totals.frees++;
    p->totals.live--;
    p->totals.live_bytes = saturating_sub(p->totals.live_bytes, block.size);
    return observe(m, MEMORY_FREE, p, at, slot, e);
}

static int memory_note_fault(struct memory *m, enum memory_fault_kind kind, uint32_t pool,
                             uint32_t callstack, const struct memory_fault_sample *sample,
                             struct err *e)
{
    bool fresh;
    uint64_t key = (uint64_t)kind << 60 | (uint64_t)pool << 32 | callstack;
    uint64_t *number = map_add(&m->fault_numbers, key, &fresh);
    if (!number)
        return err_no_memory(e, "memory faults");
    if (fresh) {
        *number = m->faults.len;
        if (!vec_push(&m->faults,
                      (struct memory_fault){.kind = kind, .pool = pool, .callstack = callstack}))
            return err_no_memory(e, "memory faults");
    }
    struct memory_fault *f = &m->faults.at[*number];
    if (f->count < FAULT_SAMPLES)
        f->first[f->count] = *sample;
    f->last[f->count % FAULT_SAMPLES] = *sample;
    f->count++;
    return 0;
}

/* An allocation at the address of a live block. */
static __attribute__((noinline)) int
memory_alloc_twice(struct memory *m, const struct memory_aim *aim, struct live_slot *slot,
                   uint64_t size, const struct memory_place *at, bool *fault, struct err *e)
{
    *fault = aim->pool->key != POOL_OTHER;
    if (*fault) {
        struct memory_fault_sample sample = {.time = at->time,
                                             .ptr = aim->ptr,
                                             .size = size,
                                             .thread = at->thread,
                                             .other_callstack = slot->callstack};
        m->double_allocations++;
        if (memory_note_fault(m, FAULT_ALLOC_TWICE, aim->pool->number, at->callstack, &sample, e) !=
            0)
            return -1;
    }
    /* As the official server does when told to ignore it: the old block ends here. */
    struct memory_place end = {.time = at->time, .thread = at->thread};
    return pool_end_block(m, aim->pool, slot, aim->hash, &end, e);
}

int memory_alloc(struct memory *m, const struct memory_aim *aim, uint64_t size,
                 const struct memory_place *at, bool *fault, struct err *e)
{
    struct pool *p = aim->pool;
    struct live_slot *slot = live_set_find(&p->live, aim->ptr, aim->hash);
    *fault = false;
    if (__builtin_expect(slot != NULL, 0) &&
        memory_alloc_twice(m, aim, slot, size, at, fault, e) != 0)
        return -1;
    struct live_block block = {.ptr = aim->ptr,
                               .size = size & BITS48,
                               .time = at->time,
                               .index = p->allocs.len,
                               .callstack = at->callstack,
                               .thread = at->thread};
    if (!(slot = live_set_add(&p->live, aim->hash)))
        return err_no_memory(e, "live allocations");
    live_slot_fill(slot, &block);
    if (pool_append(p, &block, &still_live, e) != 0) {
        live_set_remove(&p->live, slot, aim->hash);
        return -1;
    }
    p->totals.live++;
    p->totals.live_bytes = saturating_add(p->totals.live_bytes, block.size);
    return observe(m, MEMORY_ALLOC, p, at, slot, e);
}

static __attribute__((noinline)) int memory_free_unknown(struct memory *m,
                                                         const struct memory_aim *aim,
                                                         const struct memory_place *at,
                                                         bool is_fault, struct err *e)
{
    if (aim->ptr == 0) {
        m->null_frees++;
        return 0;
    }
    m->unknown_frees++;
    if (!is_fault || aim->pool->key == POOL_OTHER)
        return 0;
    struct memory_fault_sample sample = {.time = at->time, .ptr = aim->ptr, .thread = at->thread};
    return memory_note_fault(m, FAULT_FREE_UNKNOWN, aim->pool->number, at->callstack, &sample, e);
}

int memory_free(struct memory *m, const struct memory_aim *aim, const struct memory_place *at,
                bool is_fault, bool *found, struct err *e)
{
    struct live_set *live = &aim->pool->live;
    struct live_slot *slot = live_set_guess(live, aim->slot, aim->ptr);
    if (!slot)
        slot = live_set_find(live, aim->ptr, aim->hash);
    *found = slot != NULL;
    return slot ? pool_end_block(m, aim->pool, slot, aim->hash, at, e)
                : memory_free_unknown(m, aim, at, is_fault, e);
}

int memory_discard(struct memory *m, uint32_t pool, struct memory_place at, struct err *e)
{
    struct pool *p = m->pools.at[pool];
    size_t n = p->live.count;
    if (n == 0)
        return 0;
    struct live_block *blocks = live_set_list(&p->live);
    if (!blocks)
        return err_no_memory(e, "a pool's live allocations");
    int status = 0;
    for (size_t i = 0; i < n && status == 0; i++) {
        uint64_t hash = live_set_hash(&p->live, blocks[i].ptr);
        struct live_slot *slot = live_set_find(&p->live, blocks[i].ptr, hash);
        status = pool_end_block(m, p, slot, hash, &at, e);
    }
    free(blocks);
    return status;
}

int memory_append(struct memory *m, uint32_t pool, const struct memory_event_in *ev, struct err *e)
{
    struct pool *p = m->pools.at[pool];
    bool is_live = ev->time_free < ev->time_alloc;
    struct live_block block = {.ptr = ev->ptr,
                               .size = ev->size & BITS48,
                               .time = ev->time_alloc,
                               .callstack = ev->callstack_alloc,
                               .thread = ev->thread_alloc};
    struct memory_free fill =
        is_live ? still_live
                : make_free(ev->time_alloc, ev->time_free, ev->thread_free, ev->callstack_free);
    if (pool_append(p, &block, &fill, e) != 0)
        return -1;
    if (is_live) {
        p->totals.live++;
        p->totals.live_bytes = saturating_add(p->totals.live_bytes, block.size);
    } else {
        p->totals.frees++;
    }
    return 0;
}
