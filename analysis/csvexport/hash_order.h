#pragma once

/*
 * The order in which the official tools iterate over their hash maps, which determines the order of
 * some of their output. It depends only on the keys, their order of insertion, and the room
 * reserved before. This is a model of such a table: it stores keys only.
 *
 * Source: server/tracy_robin_hood.h @ v0.9.1 … v0.14.0 (`unordered_flat_map` with integer keys and
 * at most 80 % of the slots in use).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct hash_order {
    uint64_t *keys;
    uint8_t *marks; /* 0: free slot; else a key's distance from its home, and bits of its hash */
    size_t homes;   /* a power of two; 0 while empty */
    size_t slots;   /* more than homes: the last keys are past the end */
    size_t count;
    size_t count_max;
    uint64_t multiplier;
    unsigned step; /* increment of a mark for each slot away from home */
    unsigned shift;
};

/* Reserves room for `reserved` keys, as the official code does; 0 if it does not. */
int hash_order_init(struct hash_order *h, size_t reserved, struct err *e);
void hash_order_release(struct hash_order *h);

/* Signed keys must be sign-extended. *fresh (may be NULL): the key is new. */
int hash_order_add(struct hash_order *h, uint64_t key, bool *fresh, struct err *e);

/* Iterates over the keys: start with *iter = 0; false at the end. */
bool hash_order_next(const struct hash_order *h, size_t *iter, uint64_t *key);
