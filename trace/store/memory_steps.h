#pragma once

/*
 * The steps of a pool's history: allocations and frees. Captures consist mostly of these, so they
 * are defined here to be inlined into the loop that takes them; rare cases are in memory.c.
 */

#include "base/saturate.h"
#include "trace/store/memory.h"

#define MEMORY_BITS48 ((UINT64_C(1) << 48) - 1)

/*
 * The address of a future step, and data looked up ahead. Look-ups go to cold memory, so a caller
 * that knows the next steps calls these functions, each some steps after the previous one:
 * memory_aim_at, memory_prefetch_block, before a free memory_prefetch_free, and last the step
 * itself. Other steps may come in between. Only memory_aim_at is mandatory.
 */
struct memory_aim {
    struct pool *pool;
    uint64_t ptr;
    uint64_t hash;   /* of ptr, in the pool's live set */
    uint32_t slot;   /* likely slot of the block in the live set */
    uint32_t groups; /* groups of the live set at that time; 0: unknown */
};

static inline __attribute__((always_inline)) void memory_aim_at(struct memory_aim *a,
                                                                struct pool *p, uint64_t ptr)
{
    *a = (struct memory_aim){.pool = p, .ptr = ptr, .hash = live_set_hash(&p->live, ptr)};
    live_set_prefetch_tags(&p->live, a->hash);
}

static inline __attribute__((always_inline)) void memory_prefetch_block(struct memory_aim *a,
                                                                        bool is_free)
{
    const struct live_set *live = &a->pool->live;
    a->slot = (uint32_t)live_set_prefetch_slot(live, a->hash, is_free);
    a->groups = live->groups <= UINT32_MAX / LIVE_STRIDE ? (uint32_t)live->groups : 0;
}

/* Prefetches the record that the free will fill in. */
static inline __attribute__((always_inline)) void memory_prefetch_free(const struct memory_aim *a)
{
    const struct live_slot *slot = live_set_taken(&a->pool->live, a->slot, a->groups);
    if (slot && !a->pool->counted)
        __builtin_prefetch(
            column_raw(&a->pool->frees, live_slot_block(slot).index, sizeof(struct memory_free)),
            1);
}

/*
 * ---- Rare cases. Copy a place only where they occur: a place whose address is taken, or that is
 * passed as a whole in registers, would be kept in memory on the common path, too.
 */

/* Reports a step to the observer. The block is still in its slot, even if that was just vacated. */
int memory_tell_observer(struct memory *m, enum memory_op_kind kind, const struct pool *p,
                         const struct memory_place *at, const struct live_slot *slot,
                         struct err *e);

/* Fills in a free whose chunk is already packed. */
int memory_log_free(struct pool *p, uint64_t index, struct memory_free fill, struct err *e);

/*
 * Finds *slot for a block when live_set_claim returned none. If the address is live, ends its
 * block. Returns 1 for a fault, else 0.
 */
int memory_claim_slow(struct memory *m, const struct memory_aim *aim, uint64_t size,
                      const struct memory_place *at, struct live_slot **slot, struct err *e);

/* Ends the block in a slot from live_set_find. */
int memory_end_far(struct memory *m, const struct memory_aim *aim, struct live_slot *slot,
                   const struct memory_place *at, struct err *e);

/* A free of an address that is not live. Returns 1, or -1. */
int memory_free_unknown(struct memory *m, const struct memory_aim *aim,
                        const struct memory_place *at, bool is_fault, struct err *e);

/* ---- parts of a step */

static const struct memory_free pool_still_live = {0, 0};

static inline int observe(struct memory *m, enum memory_op_kind kind, const struct pool *p,
                          struct memory_place at, const struct live_slot *slot, struct err *e)
{
    if (__builtin_expect(m->observer.op == NULL, 1))
        return 0;
    struct memory_place copy = at;
    return memory_tell_observer(m, kind, p, &copy, slot, e);
}

/* Puts a block into the columns. */
static inline int pool_keep(struct pool *p, const struct live_block *b, const struct memory_free *f,
                            struct err *e)
{
    struct memory_alloc *alloc = column_append_sized(&p->allocs, sizeof *alloc, e);
    if (!alloc)
        return -1;
    *alloc = (struct memory_alloc){.ptr = b->ptr,
                                   .size_thread = b->size | (uint64_t)b->thread << 48,
                                   .time = b->time,
                                   .callstack = b->callstack};
    struct memory_free *fill = column_append_sized(&p->frees, sizeof *fill, e);
    if (!fill) {
        column_drop_last(&p->allocs); /* keep the two columns in step */
        return -1;
    }
    *fill = *f;
    return 0;
}

static inline int pool_append(struct pool *p, const struct live_block *b,
                              const struct memory_free *f, struct err *e)
{
    if (__builtin_expect(!p->counted, 1) && pool_keep(p, b, f, e) != 0)
        return -1;
    if (b->time < p->last_time)
        p->disorder++;
    else
        p->last_time = b->time;
    struct pool_totals *t = &p->totals;
    if (t->allocations++ == 0)
        p->first_time = b->time;
    t->total_bytes = saturating_add(t->total_bytes, b->size);
    uint64_t high = b->ptr > UINT64_MAX - b->size ? UINT64_MAX : b->ptr + b->size;
    if (b->ptr < t->low_address)
        t->low_address = b->ptr;
    if (high > t->high_address)
        t->high_address = high;
    return 0;
}

static inline int sum_step(struct memory *m, uint32_t callstack, uint64_t size, struct err *e)
{
    if (__builtin_expect(callstack >= m->stack_sums.len, 0))
        return memory_sum_stack(m, callstack, 1, size, e);
    struct callstack_sum *sum = &m->stack_sums.at[callstack];
    sum->count++;
    sum->bytes = saturating_add(sum->bytes, size);
    return 0;
}

/* The file cannot hold a free before its allocation: it gets the allocation's time. */
static inline struct memory_free pool_make_free(int64_t time_alloc, int64_t time, uint64_t thread,
                                                uint32_t callstack)
{
    int64_t freed = time_of_free(time > time_alloc ? time : time_alloc);
    uint64_t after = (uint64_t)freed - (uint64_t)time_alloc;
    if (after > MEMORY_BITS48 - 1)
        after = MEMORY_BITS48 - 1;
    return (struct memory_free){(after + 1) | thread << 48, callstack};
}

/* Records the end of a block that is being removed from the live set. */
static inline __attribute__((always_inline)) int pool_fill_free(struct memory *m, struct pool *p,
                                                                const struct live_slot *slot,
                                                                struct memory_place at,
                                                                struct err *e)
{
    struct live_block block = live_slot_block(slot);
    struct memory_free fill = pool_make_free(block.time, at.time, at.thread, at.callstack);
    struct memory_free *stored =
        __builtin_expect(p->counted, 0) ? NULL : column_raw(&p->frees, block.index, sizeof fill);
    if (__builtin_expect(stored != NULL, 1))
        *stored = fill;
    else if (!p->counted && memory_log_free(p, block.index, fill, e) != 0)
        return -1;
    p->totals.frees++;
    p->totals.live--;
    p->totals.live_bytes = saturating_sub(p->totals.live_bytes, block.size);
    m->live_bytes = saturating_sub(m->live_bytes, block.size);
    return 0;
}

/* The whole end of a block: records the free, removes it from the set, reports it. */
static inline int pool_end_block(struct memory *m, struct pool *p, struct live_slot *slot,
                                 uint64_t hash, struct memory_place at, struct err *e)
{
    if (pool_fill_free(m, p, slot, at, e) != 0)
        return -1;
    live_set_remove(&p->live, slot, hash);
    return observe(m, MEMORY_FREE, p, at, slot, e);
}

/* ---- steps */

/*
 * Records an allocation. An address that is already live is a fault: it is counted, the old block
 * is freed at this time, and the new one is recorded. (POOL_OTHER has no faults.) Returns 1 after a
 * fault, else 0, or -1.
 */
static inline int memory_alloc(struct memory *m, const struct memory_aim *aim, uint64_t size,
                               struct memory_place at, struct err *e)
{
    struct pool *p = aim->pool;
    struct live_slot *slot = live_set_claim(&p->live, aim->hash);
    int fault = 0;
    if (__builtin_expect(!slot, 0)) {
        struct memory_place copy = at;
        if ((fault = memory_claim_slow(m, aim, size, &copy, &slot, e)) < 0)
            return -1;
    }
    struct live_block block = {.ptr = aim->ptr,
                               .size = size & MEMORY_BITS48,
                               .time = at.time,
                               .index = p->totals.allocations,
                               .callstack = at.callstack,
                               .thread = (uint16_t)at.thread};
    live_slot_fill(slot, &block);
    if (pool_append(p, &block, &pool_still_live, e) != 0) {
        live_set_remove(&p->live, slot, aim->hash);
        return -1;
    }
    if (sum_step(m, block.callstack, block.size, e) != 0)
        return -1;
    p->totals.live++;
    p->totals.live_bytes = saturating_add(p->totals.live_bytes, block.size);
    m->live_bytes = saturating_add(m->live_bytes, block.size);
    if (m->live_bytes > m->peak_bytes)
        m->peak_bytes = m->live_bytes;
    return observe(m, MEMORY_ALLOC, p, at, slot, e) != 0 ? -1 : fault;
}

/*
 * Records a free; returns 0, or -1. Returns 1 when the address is not live in the pool: then it
 * only counts the free in unknown_frees and, if `is_fault`, a fault. A free of the null pointer is
 * ignored.
 */
static inline int memory_free(struct memory *m, const struct memory_aim *aim,
                              struct memory_place at, bool is_fault, struct err *e)
{
    struct live_set *live = &aim->pool->live;
    struct live_slot *slot = live_set_taken(live, aim->slot, aim->groups);
    if (__builtin_expect(slot && slot->ptr == aim->ptr, 1)) {
        if (pool_fill_free(m, aim->pool, slot, at, e) != 0)
            return -1;
        live_set_remove_near(live, aim->slot);
        return observe(m, MEMORY_FREE, aim->pool, at, slot, e);
    }
    slot = live_set_find(live, aim->ptr, aim->hash);
    if (slot) {
        struct memory_place copy = at;
        return memory_end_far(m, aim, slot, &copy, e);
    }
    struct memory_place copy = at;
    return memory_free_unknown(m, aim, &copy, is_fault, e);
}
