#pragma once

/*
 * The live blocks of one pool by exact address. This is the hottest structure of a capture, so it
 * minimises unpredictable branches and cold cache lines. Slots are in groups of 15, and a group has
 * a tag of 8 hash bits for each slot. The 15 tags are compared at once; they are a thirtieth of the
 * table and mostly stay in the processor's cache. If a block's group is full, the block goes to the
 * next group and the full one counts it: a search continues only past groups with a non-zero count.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define LIVE_GROUP 15u
#define LIVE_STRIDE 16u /* slots per group; a slot has the number of its tag */

/* A live block. */
struct live_block {
    uint64_t ptr;
    uint64_t size;  /* bytes, 48 bits */
    int64_t time;   /* of its allocation, ns, 48 bits */
    uint64_t index; /* of its allocation in the pool, 48 bits */
    uint32_t callstack;
    uint16_t thread; /* local thread number */
};

/* The same in 32 bytes, half a cache line. */
struct live_slot {
    uint64_t ptr;
    uint64_t size_thread;
    uint64_t time_index_high;
    uint32_t index_low;
    uint32_t callstack;
};

struct live_tags {
    uint8_t at[LIVE_GROUP]; /* 0: vacant */
    uint8_t passed; /* blocks that found this group full; 255: that many or more, permanently */
};

struct live_set {
    struct live_tags *tags;  /* by group */
    struct live_slot *slots; /* LIVE_STRIDE per group, whose last slot is unused */
    size_t groups;           /* at least 1: sets without room share a group */
    size_t count;
    size_t limit; /* grow beyond that many blocks; 0: no room yet */
    uint64_t seed;
};

/* Initialises an empty set. The position of an address depends on this process's seed. */
void live_set_init(struct live_set *s);
void live_set_release(struct live_set *s);

/* The hash of an address, constant from live_set_init to live_set_release. */
static inline uint64_t live_set_hash(const struct live_set *s, uint64_t ptr)
{
    unsigned __int128 p = (unsigned __int128)(ptr ^ s->seed) * 0xd6e8feb86659fd93u;
    return (uint64_t)p ^ (uint64_t)(p >> 64);
}

/* The group where the search begins, from the hash's upper bits. */
static inline size_t live_set_home(const struct live_set *s, uint64_t hash)
{
    return (size_t)((unsigned __int128)hash * s->groups >> 64);
}

/* The hash's lower bits; never the tag of a vacant slot. */
static inline uint8_t live_hash_tag(uint64_t hash)
{
    uint8_t tag = (uint8_t)hash;
    return (uint8_t)(tag + (tag == 0));
}

/* One bit for each slot of a group that has this tag. */
static inline unsigned live_tags_match(const struct live_tags *t, uint8_t tag)
{
#ifdef __SSE2__
    __m128i tags = _mm_loadu_si128((const __m128i *)(const void *)t);
    __m128i equal = _mm_cmpeq_epi8(tags, _mm_set1_epi8((char)tag));
    return (unsigned)_mm_movemask_epi8(equal) & ((1u << LIVE_GROUP) - 1);
#else
    unsigned match = 0;
    for (unsigned i = 0; i < LIVE_GROUP; i++)
        match |= (unsigned)(t->at[i] == tag) << i;
    return match;
#endif
}

/*
 * Two prefetch steps for a look-up, some events apart, so that neither waits for memory. Always
 * inlined: gcc drops calls of functions that only prefetch.
 */
static inline __attribute__((always_inline)) void live_set_prefetch_tags(const struct live_set *s,
                                                                         uint64_t hash)
{
    __builtin_prefetch(&s->tags[live_set_home(s, hash)], 1);
}

/*
 * Prefetches the slot that most likely holds the block, or will hold it if it is not live yet;
 * returns the slot's number. Avoids an unpredictable branch in both cases.
 */
static inline __attribute__((always_inline)) size_t
live_set_prefetch_slot(const struct live_set *s, uint64_t hash, bool is_live)
{
    size_t group = live_set_home(s, hash);
    uint8_t tag = (uint8_t)(live_hash_tag(hash) & -(unsigned)is_live);
    unsigned match = live_tags_match(&s->tags[group], tag);
    /* Any slot of the group when none matches. */
    size_t number = group * LIVE_STRIDE + (unsigned)__builtin_ctz(match | 1u << (LIVE_GROUP - 1));
    __builtin_prefetch(&s->slots[number], 1);
    return number;
}

static inline uint8_t *live_set_tag(const struct live_set *s, size_t number)
{
    return (uint8_t *)s->tags + number;
}

/*
 * The slot with the number from live_set_prefetch_slot, when the set had `groups` groups, if it
 * holds a block; else NULL. The set may have changed since. (No set has 0 groups.)
 */
static inline struct live_slot *live_set_taken(const struct live_set *s, size_t number,
                                               size_t groups)
{
    return groups == s->groups && *live_set_tag(s, number) ? &s->slots[number] : NULL;
}

/* The slot of `ptr`, whose hash is given, or NULL. Valid until the set changes. */
static inline struct live_slot *live_set_find(const struct live_set *s, uint64_t ptr, uint64_t hash)
{
    size_t group = live_set_home(s, hash);
    for (size_t left = s->groups; left; left--) {
        const struct live_tags *t = &s->tags[group];
        for (unsigned m = live_tags_match(t, live_hash_tag(hash)); m; m &= m - 1) {
            struct live_slot *slot = &s->slots[group * LIVE_STRIDE + (unsigned)__builtin_ctz(m)];
            if (__builtin_expect(slot->ptr == ptr, 1))
                return slot;
        }
        if (__builtin_expect(t->passed == 0, 1))
            return NULL;
        if (++group == s->groups)
            group = 0;
    }
    return NULL;
}

/* Slow path of live_set_add: the first group or the set is full. */
struct live_slot *live_set_add_slow(struct live_set *s, uint64_t hash);

/*
 * Adds a slot for a new block whose address has that hash; fill it with live_slot_fill. Other slots
 * may move. NULL when memory is short.
 */
static inline struct live_slot *live_set_add(struct live_set *s, uint64_t hash)
{
    if (__builtin_expect(s->count < s->limit, 1)) {
        size_t group = live_set_home(s, hash);
        unsigned vacant = live_tags_match(&s->tags[group], 0);
        if (__builtin_expect(vacant != 0, 1)) {
            unsigned i = (unsigned)__builtin_ctz(vacant);
            s->tags[group].at[i] = live_hash_tag(hash);
            s->count++;
            return &s->slots[group * LIVE_STRIDE + i];
        }
    }
    return live_set_add_slow(s, hash);
}

/*
 * The same when a single look at the group shows that the address is not in the set and that there
 * is room, which is the usual case. Otherwise returns NULL without changing the set; the address
 * may then be in the set or not.
 */
static inline struct live_slot *live_set_claim(struct live_set *s, uint64_t hash)
{
    struct live_tags *t = &s->tags[live_set_home(s, hash)];
    unsigned vacant = live_tags_match(t, 0), like = live_tags_match(t, live_hash_tag(hash));
    if (__builtin_expect(!vacant || like || t->passed || s->count >= s->limit, 0))
        return NULL;
    unsigned i = (unsigned)__builtin_ctz(vacant);
    t->at[i] = live_hash_tag(hash);
    s->count++;
    return &s->slots[(size_t)(t - s->tags) * LIVE_STRIDE + i];
}

/* Removes the block in a slot from live_set_taken: no other group counts it. */
static inline void live_set_remove_near(struct live_set *s, size_t number)
{
    *live_set_tag(s, number) = 0;
    s->count--;
}

/* Removes the block in a slot that live_set_find returned for that hash. */
static inline void live_set_remove(struct live_set *s, struct live_slot *slot, uint64_t hash)
{
    size_t at = (size_t)(slot - s->slots), group = at / LIVE_STRIDE;
    *live_set_tag(s, at) = 0;
    s->count--;
    for (size_t i = live_set_home(s, hash); __builtin_expect(i != group, 0);
         i = i + 1 == s->groups ? 0 : i + 1) {
        struct live_tags *t = &s->tags[i];
        t->passed = (uint8_t)(t->passed - (t->passed < UINT8_MAX));
    }
}

/* Iterates over all blocks in no particular order: *iter starts at 0; false at the end. */
bool live_set_next(const struct live_set *s, size_t *iter, struct live_block *out);

/* All blocks in order of allocation; the caller frees the list. NULL when memory is short. */
struct live_block *live_set_list(const struct live_set *s);

static inline void live_slot_fill(struct live_slot *slot, const struct live_block *b)
{
    *slot = (struct live_slot){
        .ptr = b->ptr,
        .size_thread = b->size | (uint64_t)b->thread << 48,
        .time_index_high = ((uint64_t)b->time & ((UINT64_C(1) << 48) - 1)) | (b->index >> 32) << 48,
        .index_low = (uint32_t)b->index,
        .callstack = b->callstack,
    };
}

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
