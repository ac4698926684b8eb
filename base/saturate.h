#pragma once

/*
 * Sums of byte counts that saturate at 2^64 - 1 instead of wrapping. Sizes have 48 bits, so no real
 * program gets there; a hostile one must not be shown a small figure. A saturated sum stays
 * saturated even when something is subtracted: from then on it is a lower bound. Signed sums
 * saturate at both ends.
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

static inline int64_t saturating_sum(int64_t a, int64_t b)
{
    int64_t out;
    if (!__builtin_add_overflow(a, b, &out))
        return out;
    return b > 0 ? INT64_MAX : INT64_MIN;
}
