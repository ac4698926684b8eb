#pragma once

/* Disjoint ranges of addresses, in order, each with an owner's number. */

#include <stdint.h>

#include "base/err.h"
#include "base/vec.h"

struct address_range {
    uint64_t start, end;
    uint64_t owner;
};

struct address_ranges {
    VEC(struct address_range) list;
};

void address_ranges_release(struct address_ranges *r);

/* The index of the first range that ends after `address`. */
size_t address_ranges_at(const struct address_ranges *r, uint64_t address);

/*
 * Inserts a range at `index`, between its neighbours. ERR_INPUT when there are too many: real
 * snapshots have one for each contiguous part of a device's memory.
 */
int address_ranges_insert(struct address_ranges *r, size_t index, struct address_range range,
                          struct err *e);
void address_ranges_remove(struct address_ranges *r, size_t index);

/* Adds what of a range is in none yet. */
int address_ranges_add(struct address_ranges *r, struct address_range range, struct err *e);

/* Cuts a range out of those that overlap it. */
int address_ranges_cut(struct address_ranges *r, uint64_t start, uint64_t end, struct err *e);
