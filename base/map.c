#include "base/map.h"

#include <sys/random.h>

#define SLOT_BYTES (sizeof(struct map_slot) + 1)
/*
 * Distance of two slots of an iteration. It is odd, so that all slots are visited, and spreads any
 * part of an iteration over a smaller map. In order of the slots, that is of the hash, the entries
 * would fill a growing copy from its beginning, and each would be probed past those before it.
 */
#define STRIDE ((size_t)0x9e3779b97f4a7c15u)

/*
 * The seed is the only state here that belongs to no object. It is written once, before the first
 * look-up, and stays the same for the life of the process.
 */
static uint64_t map_seed(void)
{
    static uint64_t seed;
    uint64_t s = __atomic_load_n(&seed, __ATOMIC_RELAXED);
    if (s)
        return s;
    if (getrandom(&s, sizeof s, GRND_NONBLOCK) != (ssize_t)sizeof s)
        s = 0x9e3779b97f4a7c15u;
    s |= 1;
    uint64_t none = 0;
    if (!__atomic_compare_exchange_n(&seed, &none, s, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        s = none;
    return s;
}

uint64_t map_hash(uint64_t key)
{
    /* Folds one 64x64→128 multiplication: every input bit affects every output bit. */
    unsigned __int128 p = (unsigned __int128)(key ^ map_seed()) * 0xd6e8feb86659fd93u;
    return (uint64_t)p ^ (uint64_t)(p >> 64);
}

void map_release(struct map *m)
{
    pageable_free(m->pageable, m->slots, m->slots ? (m->mask + 1) * SLOT_BYTES : 0);
    *m = (struct map){.pageable = m->pageable};
}

uint64_t *map_find(const struct map *m, uint64_t key)
{
    if (!m->slots)
        return NULL;
    for (size_t i = map_hash(key) & m->mask;; i = (i + 1) & m->mask) {
        if (!m->used[i])
            return NULL;
        if (m->slots[i].key == key)
            return &m->slots[i].value;
    }
}

static uint64_t *map_place(struct map *m, uint64_t key, bool *fresh)
{
    size_t i = map_hash(key) & m->mask;
    while (m->used[i]) {
        if (m->slots[i].key == key) {
            *fresh = false;
            return &m->slots[i].value;
        }
        i = (i + 1) & m->mask;
    }
    m->used[i] = 1;
    m->slots[i] = (struct map_slot){.key = key};
    m->count++;
    *fresh = true;
    return &m->slots[i].value;
}

static const struct map_slot *map_step(const struct map *m, size_t *iter, size_t stride)
{
    if (!m->slots)
        return NULL;
    for (size_t i = *iter; i <= m->mask; i++) {
        size_t slot = i * stride & m->mask;
        if (m->used[slot]) {
            *iter = i + 1;
            return &m->slots[slot];
        }
    }
    return NULL;
}

/* In a map of twice the size, the entries lie in the order of their slots, too. */
static bool map_grow(struct map *m)
{
    size_t n = m->slots ? (m->mask + 1) * 2 : 16;
    if (n > SIZE_MAX / 2 / SLOT_BYTES)
        return false;
    struct map bigger = {.pageable = m->pageable, .mask = n - 1};
    bigger.slots = pageable_zeroed(m->pageable, n * SLOT_BYTES);
    if (!bigger.slots)
        return false;
    bigger.used = (uint8_t *)(bigger.slots + n);
    size_t iter = 0;
    for (const struct map_slot *s; (s = map_step(m, &iter, 1));) {
        bool fresh;
        *map_place(&bigger, s->key, &fresh) = s->value;
    }
    map_release(m);
    *m = bigger;
    return true;
}

uint64_t *map_add(struct map *m, uint64_t key, bool *fresh)
{
    bool ignored;
    if (!m->slots || m->count >= (m->mask + 1) / 4 * 3) {
        uint64_t *found = map_find(m, key);
        if (found) {
            if (fresh)
                *fresh = false;
            return found;
        }
        if (!map_grow(m) || !m->slots) /* clang-tidy does not see that it has them */
            return NULL;
    }
    return map_place(m, key, fresh ? fresh : &ignored);
}

void map_remove(struct map *m, uint64_t key)
{
    uint64_t *value = map_find(m, key);
    if (!value)
        return;
    size_t hole =
        (size_t)((struct map_slot *)((uint8_t *)value - offsetof(struct map_slot, value)) -
                 m->slots);
    /* Entries after the hole move up, but never before the slot that their key hashes to. */
    for (size_t i = (hole + 1) & m->mask; m->used[i]; i = (i + 1) & m->mask) {
        size_t home = map_hash(m->slots[i].key) & m->mask;
        if (((i - home) & m->mask) < ((i - hole) & m->mask))
            continue;
        m->slots[hole] = m->slots[i];
        hole = i;
    }
    m->used[hole] = 0;
    m->count--;
}

const struct map_slot *map_next(const struct map *m, size_t *iter)
{
    return map_step(m, iter, STRIDE);
}
