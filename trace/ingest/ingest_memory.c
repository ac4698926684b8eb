/*
 * Memory events, which make up most captures. They arrive in batches, so the ingest can hide memory
 * latency: an event's data lies in cold memory. Each block of a few events is visited several times
 * before its turn, always behind other blocks. The first visit prefetches the tags of the
 * addresses, the next the slots that the tags lead to, then the records of the frees to fill in,
 * which the slots lead to. When the block's turn comes, all of it is in the cache. Blocks are
 * small, because a processor can have only a dozen or two cache lines in flight.
 */

#include <inttypes.h>

#include "trace/ingest/ingest_internal.h"
#include "trace/store/memory_steps.h"

#define BLOCK ((size_t)16)
#define BATCH ((size_t)64) /* events per batch */

/* Data looked up ahead for a batch. */
struct ahead {
    const struct memory_event *events;
    size_t n;
    struct memory_aim aims[BATCH];
};

static inline struct recent_pool *recent_pool(struct ingest *in, uint64_t key)
{
    return &in->recent_pools[(key >> 4 ^ key >> 8) % INGEST_RECENT_POOLS];
}

static struct pool *note_pool(struct ingest *in, uint64_t key, uint64_t number)
{
    struct pool *pool = in->trace->memory.pools.at[number];
    *recent_pool(in, key) = (struct recent_pool){.key = key, .pool = pool};
    return pool;
}

/* Slow path: the pool is not in the cache. */
static __attribute__((noinline)) struct pool *find_pool(struct ingest *in, uint64_t key)
{
    const uint64_t *number = map_find(&in->trace->memory.pool_numbers, key);
    return number ? note_pool(in, key, *number) : NULL;
}

/* The pool with that key, or NULL if it does not exist yet. */
static inline struct pool *known_pool(struct ingest *in, uint64_t key)
{
    const struct recent_pool *recent = recent_pool(in, key);
    return __builtin_expect(recent->pool && key == recent->key, 1) ? recent->pool
                                                                   : find_pool(in, key);
}

static int make_pool(struct ingest *in, uint64_t key, struct err *e)
{
    uint32_t number;
    if (known_pool(in, key))
        return 0;
    if (memory_pool(&in->trace->memory, key, &number, e) != 0)
        return -1;
    (void)note_pool(in, key, number);
    return 0;
}

static inline struct recent_thread *recent_thread(struct ingest *in, const struct memory_event *ev)
{
    return &in->recent_threads[ev->thread % INGEST_RECENT_THREADS];
}

/* Slow path: the number of a thread that is not in the cache; -1 after an error. */
static __attribute__((noinline)) int change_thread(struct ingest *in, const struct memory_event *ev,
                                                   struct err *e)
{
    uint16_t number;
    if (trace_thread_number(in->trace, ev->thread, &number, e) != 0)
        return -1;
    /* A free lists its thread only if it finds its block, as in the official server. */
    if (ev->kind != EVENT_MEM_FREE && ingest_use_thread(in, number, e) != 0)
        return -1;
    const struct trace_thread *th = &in->trace->threads.list.at[number];
    if (th->listed && th->local && th->id == ev->thread)
        *recent_thread(in, ev) = (struct recent_thread){.id = ev->thread, .number = number};
    return number;
}

static inline int find_place(struct ingest *in, const struct memory_event *ev,
                             struct memory_place *at, struct err *e)
{
    if (ingest_enter_part(in, ev->time, e) != 0)
        return -1;
    int64_t time = ingest_part_time(in, ev->time);
    const struct recent_thread *recent = recent_thread(in, ev);
    int thread = recent->number;
    if (__builtin_expect(!thread || ev->thread != recent->id, 0) &&
        (thread = change_thread(in, ev, e)) < 0)
        return -1;
    *at =
        (struct memory_place){.time = time, .thread = (uint16_t)thread, .callstack = ev->callstack};
    return 0;
}

static inline int put_alloc(struct ingest *in, const struct memory_event *ev,
                            const struct memory_aim *aim, struct err *e)
{
    struct memory_place at;
    if (find_place(in, ev, &at, e) != 0)
        return -1;
    ingest_time(in, at.time);
    int fault = memory_alloc(&in->trace->memory, aim, ev->size, at, e);
    if (__builtin_expect(fault == 0, 1) || fault < 0 || !in->strict)
        return fault < 0 ? -1 : 0;
    return err_set(e, ERR_CHECK,
                   "MemAllocTwice: memory allocation at 0x%" PRIx64 ", which is live already",
                   aim->ptr);
}

static inline int put_free(struct ingest *in, const struct memory_event *ev,
                           const struct memory_aim *aim, struct err *e)
{
    struct memory_place at;
    if (find_place(in, ev, &at, e) != 0)
        return -1;
    int unknown = memory_free(&in->trace->memory, aim, at, !in->unknown_frees_expected, e);
    if (__builtin_expect(unknown == 0, 1)) {
        ingest_time(in, at.time);
        return at.thread == recent_thread(in, ev)->number
                   ? 0
                   : ingest_use_thread(in, (uint16_t)at.thread, e);
    }
    bool is_fault = !in->unknown_frees_expected && aim->pool->key != POOL_OTHER;
    if (unknown < 0 || !is_fault || !in->strict || aim->ptr == 0)
        return unknown < 0 ? -1 : 0;
    return err_set(e, ERR_CHECK,
                   "MemFree: memory free of 0x%" PRIx64 " without a matching allocation", aim->ptr);
}

/* ---- the steps of a block; `from` may lie after the last event, or before the first one */

static inline size_t block_end(const struct ahead *h, size_t from)
{
    return from >= h->n ? from : from + BLOCK < h->n ? from + BLOCK : h->n;
}

/* A new pool ends the batch: it is created only after all earlier events are done. */
static inline void aim_block(struct ingest *in, struct ahead *h, size_t from)
{
    for (size_t i = from, end = block_end(h, from); i < end; i++) {
        struct pool *pool = known_pool(in, h->events[i].pool);
        if (__builtin_expect(!pool, 0)) {
            h->n = i;
            return;
        }
        memory_aim_at(&h->aims[i], pool, h->events[i].ptr);
    }
}

static inline __attribute__((always_inline)) void fetch_blocks(struct ahead *h, size_t from)
{
    for (size_t i = from, end = block_end(h, from); i < end; i++)
        memory_prefetch_block(&h->aims[i], h->events[i].kind == EVENT_MEM_FREE);
}

/* Which events are frees is unpredictable, so they are listed without a branch. */
static inline __attribute__((always_inline)) void fetch_frees(const struct ahead *h, size_t from)
{
    size_t frees[BLOCK + 1], count = 0;
    for (size_t i = from, end = block_end(h, from); i < end; i++) {
        frees[count] = i;
        count += h->events[i].kind == EVENT_MEM_FREE;
    }
    for (size_t i = 0; i < count; i++)
        memory_prefetch_free(&h->aims[frees[i]]);
}

static inline int put_block(struct ingest *in, const struct ahead *h, size_t from, struct err *e)
{
    for (size_t i = from, end = block_end(h, from); i < end; i++) {
        const struct memory_event *ev = &h->events[i];
        if ((ev->kind == EVENT_MEM_ALLOC ? put_alloc(in, ev, &h->aims[i], e)
                                         : put_free(in, ev, &h->aims[i], e)) != 0)
            return -1;
    }
    return 0;
}

/* Returns how many events it took, at least one; 0 after an error. */
static size_t put_batch(struct ingest *in, const struct memory_event *events, size_t n,
                        struct err *e)
{
    struct ahead h; /* most of it needs no initialisation */
    h.events = events;
    h.n = n;
    if (make_pool(in, events[0].pool, e) != 0)
        return 0;
    for (size_t at = 0; at < h.n + 3 * BLOCK; at += BLOCK) {
        aim_block(in, &h, at);
        fetch_blocks(&h, at - BLOCK);
        fetch_frees(&h, at - 2 * BLOCK);
        if (put_block(in, &h, at - 3 * BLOCK, e) != 0)
            return 0;
    }
    return h.n;
}

/* ---- the sink */

int ingest_memory(void *ctx, const struct memory_event *events, size_t n, struct err *e)
{
    struct ingest *in = ctx;
    for (size_t done = 0, taken; done < n; done += taken) {
        taken = put_batch(in, events + done, n - done < BATCH ? n - done : BATCH, e);
        if (taken == 0)
            return -1;
    }
    return 0;
}

int ingest_discard(struct ingest *in, const struct event *ev, struct err *e)
{
    const uint64_t *pool = map_find(&in->trace->memory.pool_numbers, ev->mem.pool);
    const struct memory_event as_memory = memory_of_event(ev);
    struct memory_place at;
    if (!pool)
        return 0; /* a pool that never had an allocation */
    if (find_place(in, &as_memory, &at, e) != 0)
        return -1;
    ingest_time(in, at.time);
    return memory_discard(&in->trace->memory, (uint32_t)*pool, at, e);
}
