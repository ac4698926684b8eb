#ifndef TIDEMARK_BASE_ORDER_H
#define TIDEMARK_BASE_ORDER_H

/* Puts numbers in order, in time that grows with how many there are. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct keyed {
    uint64_t key;
    uint64_t value;
};

/* By key; those of equal keys keep their order. False when memory is short: nothing is changed. */
bool order_by_key(struct keyed *items, size_t n);

#endif
