#ifndef TIDEMARK_BASE_ORDER_H
#define TIDEMARK_BASE_ORDER_H

/* Sorts numbers in linear time. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct keyed {
    uint64_t key;
    uint64_t value;
};

/* Stable sort by key. Returns false and changes nothing when memory is short. */
bool order_by_key(struct keyed *items, size_t n);

#endif
