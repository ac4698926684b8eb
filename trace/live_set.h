#ifndef TIDEMARK_TRACE_LIVE_SET_H
#define TIDEMARK_TRACE_LIVE_SET_H

/*
 * The live blocks of one pool by exact address: open addressing, 32 bytes a slot, two slots to a
 * cache line, removal without tombstones. The hottest structure of a capture.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LIVE_SLOT_FREE UINT32_MAX

/* A live block. */
struct live_block {
    uint64_t ptr;
    uint64_t size;  /* bytes, 48 bits */
    int64_t time;   /* of its allocation, ns, 48 bits */
    uint64_t index; /* of its allocation in the pool, 48 bits */
    uint32_t callstack;
    uint16_t thread; /* local thread number */
};

struct live_slot {
    uint64_t ptr;
    uint64_t size_thread;
    uint64_t time_index_high;
    uint32_t index_low;
    uint32_t callstack; /* LIVE_SLOT_FREE when the slot is */
};

struct live_set {
    struct live_slot *slots;
    size_t mask;
    size_t count;
    uint64_t seed;
};

void live_set_release(struct live_set *s);

/* Where the search for `ptr` begins. There must be slots. */
static inline size_t live_set_home(const struct live_set *s, uint64_t ptr)
{
    unsigned __int128 p = (unsigned __int128)(ptr ^ s->seed) * 0xd6e8feb86659fd93u;
    return (size_t)((uint64_t)p ^ (uint64_t)(p >> 64)) & s->mask;
}

static inline bool live_slot_vacant(const struct live_slot *slot)
{
    return slot->callstack == LIVE_SLOT_FREE;
}

/*
 * Brings the memory that live_set_find(ptr) will touch closer. Always inlined: gcc drops calls of
 * functions that do nothing but prefetch.
 */
static inline __attribute__((always_inline)) void live_set_prefetch(const struct live_set *s,
                                                                    uint64_t ptr)
{
    if (s->slots)
        __builtin_prefetch(&s->slots[live_set_home(s, ptr)], 1);
}

/* The slot of `ptr`, or NULL. Valid until the set changes. */
static inline struct live_slot *live_set_find(const struct live_set *s, uint64_t ptr)
{
    if (!s->slots)
        return NULL;
    for (size_t i = live_set_home(s, ptr);; i = (i + 1) & s->mask) {
        if (live_slot_vacant(&s->slots[i]))
            return NULL;
        if (s->slots[i].ptr == ptr)
            return &s->slots[i];
    }
}

/*
 * The same, with a guess: where the slot of `ptr` was when the set was last asked. Whatever has
 * changed since, a slot that holds the address is the one.
 */
static inline struct live_slot *live_set_find_near(const struct live_set *s, uint64_t ptr,
                                                   size_t guess)
{
    struct live_slot *slot = s->slots ? &s->slots[guess & s->mask] : NULL;
    return slot && slot->ptr == ptr && !live_slot_vacant(slot) ? slot : live_set_find(s, ptr);
}

/*
 * The slot of `ptr`, or the vacant one that live_set_fill may fill with it. Valid until the set
 * changes. NULL when memory is short.
 */
struct live_slot *live_set_seek(struct live_set *s, uint64_t ptr);

/* Adds a block in the vacant slot that live_set_seek gave for its address. */
void live_set_fill(struct live_set *s, struct live_slot *slot, const struct live_block *b);

/* Removes the block of a slot that live_set_find gave. */
void live_set_remove(struct live_set *s, struct live_slot *slot);

/* Visits every block in no particular order: *iter starts at 0; false at the end. */
bool live_set_next(const struct live_set *s, size_t *iter, struct live_block *out);

/* All blocks in order of allocation; the caller's to free. NULL when memory is short. */
struct live_block *live_set_list(const struct live_set *s);

static inline struct live_block live_slot_block(const struct live_slot *s)
{
    return (struct live_block){
        .ptr = s->ptr,
        .size = s->size_thread & ((UINT64_C(1) << 48) - 1),
        .time = (int64_t)(s->time_index_high << 16) >> 16,
        .index = s->index_low | s->time_index_high >> 48 << 32,
        .callstack = s->callstack,
        .thread = (uint16_t)(s->size_thread >> 48),
    };
}

#endif
