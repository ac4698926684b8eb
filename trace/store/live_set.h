#ifndef TIDEMARK_TRACE_STORE_LIVE_SET_H
#define TIDEMARK_TRACE_STORE_LIVE_SET_H

/*
 * The live blocks of one pool by exact address. The hottest structure of a capture, so it is made
 * for few unpredictable branches and few lines of cold memory: slots stand in groups of 15, and a
 * group has a tag of 8 hash bits for each of them. The 15 tags are compared at once; they are a
 * thirtieth of the whole and mostly stay in the processor's cache. What finds its group full goes
 * to the next one, and the group counts that: a search goes on only where something has passed.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define LIVE_GROUP 15u
#define LIVE_STRIDE 16u /* from group to group, in slots: a slot has the number of its tag */

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
    uint8_t at[LIVE_GROUP]; /* 0: the slot is vacant */
    uint8_t passed;         /* blocks that found no room here; 255: that many or more, for good */
};

struct live_set {
    struct live_tags *tags;  /* by group */
    struct live_slot *slots; /* LIVE_STRIDE for each group, the last of which is not used */
    size_t groups;           /* at least 1: that of a set without room is all sets' */
    size_t count;
    size_t limit; /* grows beyond so many blocks; 0: has no room yet */
    uint64_t seed;
};

/* An empty set. Which place an address has depends on the seed, that of this process. */
void live_set_init(struct live_set *s);
void live_set_release(struct live_set *s);

/* What places the block of that address, from live_set_init to live_set_release. */
static inline uint64_t live_set_hash(const struct live_set *s, uint64_t ptr)
{
    unsigned __int128 p = (unsigned __int128)(ptr ^ s->seed) * 0xd6e8feb86659fd93u;
    return (uint64_t)p ^ (uint64_t)(p >> 64);
}

/* The group where the search begins: the hash's upper bits. */
static inline size_t live_set_home(const struct live_set *s, uint64_t hash)
{
    return (size_t)((unsigned __int128)hash * s->groups >> 64);
}

/* The hash's lower bits. Never that of a vacant slot. */
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
 * Before a look-up, in two steps some events apart, so that neither waits for memory. Always
 * inlined: gcc drops calls of functions that do nothing but prefetch.
 */
static inline __attribute__((always_inline)) void live_set_prefetch_tags(const struct live_set *s,
                                                                         uint64_t hash)
{
    __builtin_prefetch(&s->tags[live_set_home(s, hash)], 1);
}

/*
 * The slot that most likely has the block, or, when it is not live yet, most likely will have it;
 * gives its number. Either way without a branch that nobody could predict.
 */
static inline __attribute__((always_inline)) size_t
live_set_prefetch_slot(const struct live_set *s, uint64_t hash, bool is_live)
{
    size_t group = live_set_home(s, hash);
    uint8_t tag = (uint8_t)(live_hash_tag(hash) & -(unsigned)is_live);
    unsigned match = live_tags_match(&s->tags[group], tag);
    /* Any slot of the group when there is none. */
    size_t number = group * LIVE_STRIDE + (unsigned)__builtin_ctz(match | 1u << (LIVE_GROUP - 1));
    __builtin_prefetch(&s->slots[number], 1);
    return number;
}

static inline uint8_t *live_set_tag(const struct live_set *s, size_t number)
{
    return (uint8_t *)s->tags + number;
}

/*
 * The slot with the number that live_set_prefetch_slot gave when the set had so many groups, when a
 * block is in it, else NULL. The set may have changed since. (No set has 0 groups.)
 */
static inline struct live_slot *live_set_taken(const struct live_set *s, size_t number,
                                               size_t groups)
{
    return groups == s->groups && *live_set_tag(s, number) ? &s->slots[number] : NULL;
}

/* The slot of `ptr`, which has that hash, or NULL. Valid until the set changes. */
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

/* live_set_add where the first group is full, or the set. */
struct live_slot *live_set_add_slow(struct live_set *s, uint64_t hash);

/*
 * A slot for a block whose address, of that hash, is not in the set yet, to be filled by
 * live_slot_fill. Other slots may move. NULL when memory is short.
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
 * The same where one look at the group tells that the address is not in the set and that there is
 * room, as it nearly always does. Else NULL, which says nothing, and the set has not changed.
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

/* Removes the block in the slot that live_set_taken gave: no other group knows of it. */
static inline void live_set_remove_near(struct live_set *s, size_t number)
{
    *live_set_tag(s, number) = 0;
    s->count--;
}

/* Removes the block of a slot that live_set_find gave for that hash. */
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

/* Visits every block in no particular order: *iter starts at 0; false at the end. */
bool live_set_next(const struct live_set *s, size_t *iter, struct live_block *out);

/* All blocks in order of allocation; the caller's to free. NULL when memory is short. */
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

#endif
