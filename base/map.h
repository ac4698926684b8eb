#ifndef TIDEMARK_BASE_MAP_H
#define TIDEMARK_BASE_MAP_H

/*
 * Hash map from u64 to u64, open addressing with linear probing. Keys come from the wire, so
 * every map hashes with a seed of its own process: a client cannot choose colliding keys.
 * Zero-initialise to get an empty map.
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
    struct pageable *pageable; /* for the slots; NULL: the heap. Set it when empty. */
    struct map_slot *slots;    /* `used` bytes follow the slots */
    uint8_t *used;
    size_t mask; /* slot count - 1; 0 with slots == NULL when empty */
    size_t count;
};

/* Leaves an empty map, which takes its memory from where it did. */
void map_release(struct map *m);

/* Mixes a key into 64 well-spread bits with the process's seed. */
uint64_t map_hash(uint64_t key);

/* The value of `key`, or NULL. Valid until the map is changed. */
uint64_t *map_find(const struct map *m, uint64_t key);

/*
 * The value of `key`, added as 0 when absent; *fresh (may be NULL) tells which. NULL when memory is
 * short. Valid until the map is changed.
 */
uint64_t *map_add(struct map *m, uint64_t key, bool *fresh);

/* Takes `key` out, when it is there. Values found before are not valid any more. */
void map_remove(struct map *m, uint64_t key);

/* Walks all entries in no particular order: start with *iter = 0; NULL at the end. */
const struct map_slot *map_next(const struct map *m, size_t *iter);

#endif
