#ifndef TIDEMARK_ANALYSIS_CSVEXPORT_HASH_ORDER_H
#define TIDEMARK_ANALYSIS_CSVEXPORT_HASH_ORDER_H

/*
 * The order in which the official tools walk their hash maps. Some of their output is in that
 * order, which depends on nothing but the keys, the order in which they came and the room asked for
 * before. Nothing is stored here but keys, so this is a model of a table and not one to use.
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
    uint8_t *marks; /* 0: free slot; else how far from its home a key is, and bits of its hash */
    size_t homes;   /* a power of two; 0 while nothing is stored */
    size_t slots;   /* more than homes: the last keys lie past the end */
    size_t count;
    size_t count_max;
    uint64_t multiplier;
    unsigned step; /* what a mark grows by for each slot away from home */
    unsigned shift;
};

/* Room for `reserved` keys from the start, as the official code asks for; 0 when it does not. */
int hash_order_init(struct hash_order *h, size_t reserved, struct err *e);
void hash_order_release(struct hash_order *h);

/* Signed keys are to be passed sign-extended. *fresh (may be NULL): the key was not there. */
int hash_order_add(struct hash_order *h, uint64_t key, bool *fresh, struct err *e);

/* Walks the keys: start with *iter = 0; false at the end. */
bool hash_order_next(const struct hash_order *h, size_t *iter, uint64_t *key);

#endif
