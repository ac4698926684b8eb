#ifndef TIDEMARK_BASE_RADIX_HEAP_H
#define TIDEMARK_BASE_RADIX_HEAP_H

/*
 * A monotone radix heap (Ahuja, Mehlhorn, Orlin, Tarjan 1990): a priority queue of 64-bit keys with
 * values, smallest key first. Keys must not be below the last one taken. Equal keys come out in
 * insertion order. Zero-initialise to get an empty heap.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/pageable.h"

#define RADIX_HEAP_BUCKETS 65

struct radix_item {
    uint64_t key;
    uint64_t value;
};

struct radix_heap {
    struct pageable *pageable; /* allocator of the items, set while empty; NULL: the heap */
    VEC(struct radix_item) buckets[RADIX_HEAP_BUCKETS];
    uint64_t least[RADIX_HEAP_BUCKETS]; /* smallest key of each non-empty bucket */
    uint64_t occupied;                  /* bit i: bucket i + 1 is not empty */
    uint64_t last;                      /* the key of bucket 0 */
    size_t taken;                       /* items already taken from bucket 0 */
    size_t count;
    /*
     * The owner's array that values index, `stride` bytes per element, or NULL. The heap prefetches
     * an element when its item comes close to the front.
     */
    const void *things;
    size_t stride;
};

/* Converts between times and keys: the flipped sign bit makes times order as unsigned numbers. */
static inline uint64_t radix_heap_key(int64_t time)
{
    return (uint64_t)time ^ UINT64_C(1) << 63;
}

static inline int64_t radix_heap_time(uint64_t key)
{
    return (int64_t)(key ^ UINT64_C(1) << 63);
}

void radix_heap_release(struct radix_heap *h);

/* False when memory is short. A key below the last one taken counts as that key. */
bool radix_heap_push(struct radix_heap *h, uint64_t key, uint64_t value);

/* Moves the smallest keys to bucket 0. False when memory is short. The heap must not be empty. */
bool radix_heap_settle(struct radix_heap *h);

/* The smallest key; false when the heap is empty. */
static inline bool radix_heap_peek(const struct radix_heap *h, uint64_t *key)
{
    if (h->count == 0)
        return false;
    *key = h->taken < h->buckets[0].len ? h->last : h->least[__builtin_ctzll(h->occupied) + 1];
    return true;
}

/* Takes the item with the smallest key. False when memory is short. The heap must not be empty. */
static inline bool radix_heap_pop(struct radix_heap *h, struct radix_item *item)
{
    if (h->taken == h->buckets[0].len && !radix_heap_settle(h))
        return false;
    *item = h->buckets[0].at[h->taken++];
    h->count--;
    return true;
}

#endif
