#ifndef TIDEMARK_BASE_RADIX_HEAP_H
#define TIDEMARK_BASE_RADIX_HEAP_H

/*
 * A monotone radix heap (Ahuja, Mehlhorn, Orlin, Tarjan 1990): a queue of 64-bit keys with values,
 * the smallest key first, for uses where no key is put in that is below the last one taken out.
 * Equal keys come out in the order in which they were put in. Zero-initialise to get an empty one.
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
    struct pageable *pageable; /* for items; NULL: the heap. Set it when empty. */
    VEC(struct radix_item) buckets[RADIX_HEAP_BUCKETS];
    uint64_t least[RADIX_HEAP_BUCKETS]; /* key of each bucket that is not empty */
    uint64_t occupied;                  /* bit i: bucket i + 1 is not empty */
    uint64_t last;                      /* the key that bucket 0 has */
    size_t taken;                       /* items of bucket 0 that are gone */
    size_t count;
    /*
     * Where the owner keeps what values are numbers of, `stride` bytes each, or NULL: it is asked
     * for from memory when an item comes close to the front.
     */
    const void *things;
    size_t stride;
};

/* A time as a key, and back: the sign bit flipped, so that times order as unsigned numbers. */
static inline uint64_t radix_heap_key(int64_t time)
{
    return (uint64_t)time ^ UINT64_C(1) << 63;
}

static inline int64_t radix_heap_time(uint64_t key)
{
    return (int64_t)(key ^ UINT64_C(1) << 63);
}

void radix_heap_release(struct radix_heap *h);

/* False when memory is short. A key below the last one taken out is put in as that one. */
bool radix_heap_push(struct radix_heap *h, uint64_t key, uint64_t value);

/* Makes bucket 0 hold the smallest keys. False when memory is short. The heap is not empty. */
bool radix_heap_settle(struct radix_heap *h);

/* The smallest key; false when the heap is empty. */
static inline bool radix_heap_peek(const struct radix_heap *h, uint64_t *key)
{
    if (h->count == 0)
        return false;
    *key = h->taken < h->buckets[0].len ? h->last : h->least[__builtin_ctzll(h->occupied) + 1];
    return true;
}

/* Takes the item of the smallest key. False when memory is short. The heap is not empty. */
static inline bool radix_heap_pop(struct radix_heap *h, struct radix_item *item)
{
    if (h->taken == h->buckets[0].len && !radix_heap_settle(h))
        return false;
    *item = h->buckets[0].at[h->taken++];
    h->count--;
    return true;
}

#endif
