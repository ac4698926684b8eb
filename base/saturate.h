#ifndef TIDEMARK_BASE_SATURATE_H
#define TIDEMARK_BASE_SATURATE_H

/*
 * Sums of byte counts that stop at 2^64 - 1 instead of starting again at 0. Sizes have 48 bits, so
 * no real program comes there; one that claims to must not be shown a small figure. A sum that has
 * stopped stays there, also when something is taken from it: it is a least value from then on.
 */

#include <stdint.h>

#define SATURATED UINT64_MAX

static inline uint64_t saturating_add(uint64_t sum, uint64_t n)
{
    uint64_t out;
    return __builtin_add_overflow(sum, n, &out) ? SATURATED : out;
}

static inline uint64_t saturating_sub(uint64_t sum, uint64_t n)
{
    return sum == SATURATED ? SATURATED : sum - n;
}

#endif
