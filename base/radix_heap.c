#include "base/radix_heap.h"

#define NEAR 1024u /* items this close to the front are taken soon; for keys in ns */

/* The most capacity that an empty bucket keeps: all items might pass through each bucket. */
#define ITEMS_KEPT 4096u

void radix_heap_release(struct radix_heap *h)
{
    for (size_t i = 0; i < RADIX_HEAP_BUCKETS; i++)
        pageable_vec_release(h->pageable, &h->buckets[i]);
    *h = (struct radix_heap){0};
}

/* Empties bucket 0 once all its items are taken, so that it does not grow without bound. */
static void drop_taken(struct radix_heap *h)
{
    if (h->taken == h->buckets[0].len)
        h->taken = h->buckets[0].len = 0;
}

static inline __attribute__((always_inline)) bool put(struct radix_heap *h, struct radix_item item)
{
    unsigned b = item.key == h->last ? 0 : 64 - (unsigned)__builtin_clzll(item.key ^ h->last);
    if (!pageable_push(h->pageable, &h->buckets[b], item))
        return false;
    if (b > 0 && (h->buckets[b].len == 1 || item.key < h->least[b]))
        h->least[b] = item.key;
    if (b > 0)
        h->occupied |= UINT64_C(1) << (b - 1);
    return true;
}

bool radix_heap_push(struct radix_heap *h, uint64_t key, uint64_t value)
{
    drop_taken(h);
    if (!put(h, (struct radix_item){key < h->last ? h->last : key, value}))
        return false;
    h->count++;
    return true;
}

bool radix_heap_settle(struct radix_heap *h)
{
    drop_taken(h);
    if (h->buckets[0].len > 0)
        return true;
    unsigned b = (unsigned)__builtin_ctzll(h->occupied) + 1;
    h->last = h->least[b];
    /* Every item of bucket b moves to a lower bucket, so b itself does not change meanwhile. */
    for (size_t i = 0; i < h->buckets[b].len; i++) {
        struct radix_item item = h->buckets[b].at[i];
        if (h->things && item.key - h->last < NEAR)
            __builtin_prefetch((const char *)h->things + item.value * h->stride);
        if (!put(h, item))
            return false;
    }
    h->buckets[b].len = 0;
    if (h->buckets[b].cap > ITEMS_KEPT)
        pageable_vec_release(h->pageable, &h->buckets[b]);
    h->occupied &= ~(UINT64_C(1) << (b - 1));
    return true;
}
