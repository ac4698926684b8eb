#include "trace/store/memory.h"

#include <stdlib.h>
#include <string.h>

#include "base/saturate.h"
#include "trace/store/memory_steps.h"

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
    .fields = {{0, 6, PACK_OFFSET},  /* time since the allocation */
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
    if (m->replay.release)
        m->replay.release(m->replay.ctx);
    for (size_t i = 0; i < m->pools.len; i++)
        pool_free(m->pools.at[i]);
    vec_release(&m->pools);
    map_release(&m->pool_numbers);
    pageable_vec_release(m->pageable, &m->faults);
    pageable_vec_release(m->pageable, &m->stack_sums);
    map_release(&m->fault_numbers);
    if (m->only.release)
        m->only.release(m->only.figures);
    buf_release(&m->only.bytes);
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
    p->counted = m->only.is;
    column_init(&p->allocs, m->spool, &alloc_layout, false);
    column_init(&p->frees, m->spool, &free_layout, true);
    live_set_init(&p->live);
    *value = *number = p->number;
    return 0;
}

int memory_tell_observer(struct memory *m, enum memory_op_kind kind, const struct pool *p,
                         const struct memory_place *at, const struct live_slot *slot, struct err *e)
{
    struct memory_op op = {.kind = kind,
                           .pool = p->number,
                           .time = at->time,
                           .thread = (uint16_t)at->thread,
                           .callstack = at->callstack,
                           .block = live_slot_block(slot),
                           .freed = NEVER_FREED};
    return m->observer.op(m->observer.ctx, &op, e);
}

int memory_log_free(struct pool *p, uint64_t index, struct memory_free fill, struct err *e)
{
    return column_patch_slow(&p->frees, index, &fill, e);
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
        if (!pageable_push(
                m->pageable, &m->faults,
                (struct memory_fault){.kind = kind, .pool = pool, .callstack = callstack}))
            return err_no_memory(e, "memory faults");
    }
    struct memory_fault *f = &m->faults.at[*number];
    if (f->count < FAULT_SAMPLES)
        f->first[f->count] = *sample;
    f->last[f->count % FAULT_SAMPLES] = *sample;
    f->count++;
    m->pools.at[pool]->faults++;
    return 0;
}

/*
 * An allocation at the address of the live block in `slot`: ends that block. Returns 1 for a fault,
 * else 0.
 */
static int alloc_twice(struct memory *m, const struct memory_aim *aim, struct live_slot *slot,
                       uint64_t size, const struct memory_place *at, struct err *e)
{
    bool is_fault = aim->pool->key != POOL_OTHER && !m->misses_frees;
    m->missed_frees += m->misses_frees;
    if (is_fault) {
        struct memory_fault_sample sample = {.time = at->time,
                                             .ptr = aim->ptr,
                                             .size = size,
                                             .thread = (uint16_t)at->thread,
                                             .other_callstack = slot->callstack};
        m->double_allocations++;
        if (memory_note_fault(m, FAULT_ALLOC_TWICE, aim->pool->number, at->callstack, &sample, e) !=
            0)
            return -1;
    }
    /* Like the official server when it ignores the fault: the old block ends here. */
    struct memory_place end = {.time = at->time, .thread = at->thread};
    return pool_end_block(m, aim->pool, slot, aim->hash, end, e) != 0 ? -1 : is_fault;
}

int memory_claim_slow(struct memory *m, const struct memory_aim *aim, uint64_t size,
                      const struct memory_place *at, struct live_slot **slot, struct err *e)
{
    struct live_set *live = &aim->pool->live;
    struct live_slot *before = live_set_find(live, aim->ptr, aim->hash);
    int fault = before ? alloc_twice(m, aim, before, size, at, e) : 0;
    if (fault < 0)
        return -1;
    *slot = live_set_add(live, aim->hash);
    return *slot ? fault : err_no_memory(e, "live allocations");
}

int memory_end_far(struct memory *m, const struct memory_aim *aim, struct live_slot *slot,
                   const struct memory_place *at, struct err *e)
{
    return pool_end_block(m, aim->pool, slot, aim->hash, *at, e);
}

int memory_free_unknown(struct memory *m, const struct memory_aim *aim,
                        const struct memory_place *at, bool is_fault, struct err *e)
{
    if (aim->ptr == 0) {
        m->null_frees++;
        return 1;
    }
    m->unknown_frees++;
    if (!is_fault || aim->pool->key == POOL_OTHER)
        return 1;
    struct memory_fault_sample sample = {
        .time = at->time, .ptr = aim->ptr, .thread = (uint16_t)at->thread};
    return memory_note_fault(m, FAULT_FREE_UNKNOWN, aim->pool->number, at->callstack, &sample, e) !=
                   0
               ? -1
               : 1;
}

int memory_refuse(const char *what, struct err *e)
{
    return err_set(e, ERR_CHECK, "figures only, no events: %s", what);
}

struct pool_sums memory_pool_sums(const struct pool *p)
{
    return (struct pool_sums){.allocations = p->before.allocations + p->totals.allocations,
                              .frees = p->before.frees + p->totals.frees,
                              .total_bytes =
                                  saturating_add(p->before.total_bytes, p->totals.total_bytes)};
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
        status = pool_end_block(m, p, slot, hash, at, e);
    }
    free(blocks);
    return status;
}

int memory_sum_stack(struct memory *m, uint32_t callstack, uint64_t count, uint64_t bytes,
                     struct err *e)
{
    if (callstack >= m->stack_sums.len) {
        size_t len = (size_t)callstack + 1;
        if (!pageable_reserve(m->pageable, &m->stack_sums, len))
            return err_no_memory(e, "sums by call stack");
        memset(m->stack_sums.at + m->stack_sums.len, 0,
               (len - m->stack_sums.len) * sizeof *m->stack_sums.at);
        m->stack_sums.len = len;
    }
    struct callstack_sum *sum = &m->stack_sums.at[callstack];
    sum->count += count;
    sum->bytes = saturating_add(sum->bytes, bytes);
    return 0;
}

int memory_append(struct memory *m, uint32_t pool, const struct rec_memory_event *ev, struct err *e)
{
    struct pool *p = m->pools.at[pool];
    bool is_live = !is_freed(ev->time_free);
    struct live_block block = {.ptr = ev->ptr,
                               .size = ev->size & MEMORY_BITS48,
                               .time = ev->time_alloc,
                               .callstack = ev->callstack_alloc,
                               .thread = ev->thread_alloc};
    struct memory_free fill = is_live ? pool_still_live
                                      : pool_make_free(ev->time_alloc, ev->time_free,
                                                       ev->thread_free, ev->callstack_free);
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
