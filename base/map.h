#pragma once

/*
 * Hash map from u64 to u64, open addressing with linear probing. Keys come from the wire, so the
 * process hashes with a random seed: a client cannot choose colliding keys. Zero-initialise to get
 * an empty map.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/pageable.h"

struct map_slot {
    uint64_t key;
    uint64_t value;
};

struct map {
    struct pageable *pageable; /* allocator of the slots, set while empty; NULL: the heap */
    struct map_slot *slots;    /* `used` bytes follow the slots */
    uint8_t *used;
    size_t mask; /* slot count - 1; 0 with slots == NULL when empty */
    size_t count;
};

/* Empties the map. It keeps its allocator. */
void map_release(struct map *m);

/* Mixes a key into 64 well-distributed bits with the process's seed. */
uint64_t map_hash(uint64_t key);

/* The value of `key`, or NULL. Valid until the map changes. */
uint64_t *map_find(const struct map *m, uint64_t key);

/*
 * The value of `key`, added as 0 when absent. *fresh (may be NULL) is set to whether it was added.
 * NULL when memory is short. Valid until the map changes.
 */
uint64_t *map_add(struct map *m, uint64_t key, bool *fresh);

/* Removes `key` if present. Invalidates pointers to values. */
void map_remove(struct map *m, uint64_t key);

/*
 * Iterates over all entries in no particular order, which suits adding them to another map. Start
 * with *iter = 0; NULL at the end.
 */
const struct map_slot *map_next(const struct map *m, size_t *iter);
