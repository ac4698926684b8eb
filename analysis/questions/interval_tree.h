#pragma once

/*
 * Intervals of addresses, in order of address, with insertion and removal: which of them cover an
 * address, or overlap a range. A B+ tree ordered by (first, value). Each child has the highest
 * address of anything below it beside its key, so a search enters only subtrees that can have a
 * match. Insertion, removal and the path to a match are O(log n). The cost in a large tree is
 * memory latency: nodes have 1 KiB, whose lines are requested together, and are in large pages.
 *
 * Both ends of an interval are inclusive, so one can end at the top of the address space.
 * Zero-initialise for an empty tree.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct interval {
    uint64_t first; /* lowest address */
    uint64_t last;  /* highest address, not below `first` */
    uint64_t value; /* the owner's; distinguishes intervals of equal `first` */
};

union interval_node;

struct interval_tree {
    union interval_node *root;
    unsigned height; /* levels of inner nodes above the leaves */
    size_t count;
    union interval_node *spare; /* nodes for reuse, linked */
    size_t spare_count;
    void **chunks; /* memory of nodes; the newest has `left` more */
    size_t chunk_count, chunk_cap;
    size_t chunk_nodes, left; /* nodes in the newest chunk */
};

/* The addresses of an allocation of `size` bytes; one of size 0 covers its own address. */
static inline struct interval interval_of_block(uint64_t ptr, uint64_t size, uint64_t value)
{
    uint64_t reach = size ? size - 1 : 0;
    uint64_t last = reach > UINT64_MAX - ptr ? UINT64_MAX : ptr + reach;
    return (struct interval){.first = ptr, .last = last, .value = value};
}

void interval_tree_release(struct interval_tree *t);

/*
 * Adds an interval; no other one may have the same `first` and `value`. False if memory is short:
 * the tree is unchanged.
 */
bool interval_tree_insert(struct interval_tree *t, const struct interval *i);

/* Removes an interval; false if there is none with this `first` and `value`. */
bool interval_tree_remove(struct interval_tree *t, uint64_t first, uint64_t value);

/*
 * Calls `visit` for every interval that has an address in [low, high], in order of (first, value),
 * until it returns false. The tree must not change meanwhile. Returns false if it was stopped.
 */
typedef bool interval_visit(void *ctx, const struct interval *i);
bool interval_tree_overlap(const struct interval_tree *t, uint64_t low, uint64_t high,
                           interval_visit *visit, void *ctx);
