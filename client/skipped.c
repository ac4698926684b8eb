#include "client/skipped.h"

#include "client/chunks.h"
#include "client/kernel_map.h"
#include "client/record_write.h"

#define BUCKETS (1u << 17)
#define KEYS 7u
#define SLAB_BUCKETS 1023u

/* A cache line. If it is full, the chain goes on in the next one. */
struct bucket {
    _Atomic uint64_t keys[KEYS]; /* 0: free */
    _Atomic(struct bucket *) more;
};

struct slab {
    _Alignas(64) _Atomic uint32_t used;
    _Alignas(64) struct bucket buckets[SLAB_BUCKETS];
};

static struct {
    _Atomic(struct bucket *) buckets;
    _Atomic(struct slab *) slab; /* for chains; full ones are never freed */
} set;

static inline uint64_t key_of(uint32_t pool, uint64_t address)
{
    return address ^ (uint64_t)pool << 48;
}

static inline uint32_t home_of(uint64_t key)
{
    return (uint32_t)((key >> 4 ^ key >> 48) * UINT64_C(0x9e3779b97f4a7c15) >> 32) % BUCKETS;
}

static struct bucket *table(void)
{
    struct bucket *there = atomic_load_explicit(&set.buckets, memory_order_acquire);
    if (client_likely(there != NULL))
        return there;
    struct bucket *fresh = chunks_memory(BUCKETS * sizeof *fresh);
    if (!fresh)
        return NULL;
    if (!atomic_compare_exchange_strong(&set.buckets, &there, fresh)) {
        system_unmap(fresh, BUCKETS * sizeof *fresh);
        return there;
    }
    atomic_store_explicit(&state.skips, true, memory_order_release);
    return fresh;
}

static struct bucket *new_bucket(void)
{
    struct slab *slab = atomic_load_explicit(&set.slab, memory_order_acquire);
    for (;;) {
        if (slab) {
            uint32_t at = atomic_fetch_add_explicit(&slab->used, 1, memory_order_relaxed);
            if (at < SLAB_BUCKETS)
                return &slab->buckets[at];
        }
        struct slab *fresh = chunks_memory(sizeof *fresh);
        if (!fresh)
            return NULL;
        if (atomic_compare_exchange_strong(&set.slab, &slab, fresh))
            slab = fresh;
        else
            system_unmap(fresh, sizeof *fresh);
    }
}

/* The next bucket of a chain, allocated if needed; NULL: no memory. */
static struct bucket *next_of(struct bucket *bucket)
{
    struct bucket *next = atomic_load_explicit(&bucket->more, memory_order_acquire);
    if (next)
        return next;
    struct bucket *fresh = new_bucket();
    /* Another thread may have added one first; this bucket is then wasted, which is rare. */
    if (fresh && atomic_compare_exchange_strong(&bucket->more, &next, fresh))
        return fresh;
    return next;
}

static bool add(uint64_t key)
{
    struct bucket *bucket = table();
    bucket = bucket ? &bucket[home_of(key)] : NULL;
    for (; bucket; bucket = next_of(bucket)) {
        for (unsigned i = 0; i < KEYS; i++) {
            uint64_t none = 0;
            if (atomic_load_explicit(&bucket->keys[i], memory_order_relaxed) == 0 &&
                atomic_compare_exchange_strong(&bucket->keys[i], &none, key))
                return true;
        }
    }
    return false;
}

void skipped_add(uint32_t pool, uint64_t address, uint64_t size)
{
    if (!add(key_of(pool, address)))
        record_lost(REC_LOSS_MEMORY, false, size);
}

bool skipped_remove(uint32_t pool, uint64_t address)
{
    uint64_t key = key_of(pool, address);
    struct bucket *bucket = atomic_load_explicit(&set.buckets, memory_order_acquire);
    bool found = false;
    if (!bucket)
        return false;
    /* Searches the whole chain: a block whose free was not seen may have been added again since. */
    for (bucket = &bucket[home_of(key)]; bucket;
         bucket = atomic_load_explicit(&bucket->more, memory_order_acquire)) {
        for (unsigned i = 0; i < KEYS; i++) {
            if (atomic_load_explicit(&bucket->keys[i], memory_order_relaxed) != key)
                continue;
            atomic_store_explicit(&bucket->keys[i], 0, memory_order_release);
            found = true;
        }
    }
    return found;
}

void skipped_forget(void)
{
    struct bucket *buckets = atomic_load(&set.buckets);
    atomic_store(&state.skips, false);
    atomic_store(&set.buckets, NULL);
    atomic_store(&set.slab, NULL);
    if (buckets)
        system_unmap(buckets, BUCKETS * sizeof *buckets);
}
