#pragma once

/* Sorts numbers in linear time, and searches what is sorted. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct keyed {
    uint64_t key;
    uint64_t value;
};

/* Stable sort by key. Returns false and changes nothing when memory is short. */
bool order_by_key(struct keyed *items, size_t n);

/*
 * Binary search: moves the size_t `low` to the first position below `top` for which `BEFORE` is
 * false, or to `top`. `BEFORE` is an expression on the position `i`; it is true for the positions
 * from `low` to a certain one, and false for the others.
 */
#define BISECT(low, top, i, BEFORE)                                                                \
    for (size_t high_ = (top); (low) < high_;) {                                                   \
        const size_t i = (low) + (high_ - (low)) / 2;                                              \
        if (BEFORE)                                                                                \
            (low) = (i) + 1;                                                                       \
        else                                                                                       \
            high_ = (i);                                                                           \
    }
