#ifndef TIDEMARK_ANALYSIS_QUESTIONS_INTERVAL_TREE_H
#define TIDEMARK_ANALYSIS_QUESTIONS_INTERVAL_TREE_H

/*
 * Intervals of addresses that come and go, in order of address: which of them cover an address,
 * which overlap a range. A B+ tree ordered by (first, value); beside each child stands the highest
 * address that anything below it reaches, so a search enters only what can hold an answer. Insert,
 * remove and the way to an answer are O(log n). What costs time in a large tree is waiting for
 * memory: nodes have 1 KiB, whose lines are asked for together, and lie in large pages.
 *
 * Both ends of an interval belong to it, so one can end at the top of the address space.
 * Zero-initialise for an empty tree.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct interval {
    uint64_t first; /* lowest address */
    uint64_t last;  /* highest address, not below `first` */
    uint64_t value; /* the owner's; tells intervals of equal `first` apart */
};

union interval_node;

struct interval_tree {
    union interval_node *root;
    unsigned height; /* levels of inner nodes above the leaves */
    size_t count;
    union interval_node *spare; /* nodes to use again, linked */
    size_t spare_count;
    void **chunks; /* what nodes are cut from; the newest has `left` more */
    size_t chunk_count, chunk_cap;
    size_t chunk_nodes, left; /* nodes in the newest chunk */
};

/* What an allocation of `size` bytes covers; one of no bytes stands for its own address. */
static inline struct interval interval_of_block(uint64_t ptr, uint64_t size, uint64_t value)
{
    uint64_t reach = size ? size - 1 : 0;
    uint64_t last = reach > UINT64_MAX - ptr ? UINT64_MAX : ptr + reach;
    return (struct interval){.first = ptr, .last = last, .value = value};
}

void interval_tree_release(struct interval_tree *t);

/*
 * Adds an interval; no other of the tree may have the same `first` and `value`. False when memory
 * is short: the tree is as it was.
 */
bool interval_tree_insert(struct interval_tree *t, const struct interval *i);

/*
 * Brings closer what a change or a search at `first` will touch: memory is far slower than the
 * work. To be called some operations ahead; half way to the operation, the second call with what
 * the first one gave brings the interval's own line. What lies between may be anything but
 * interval_tree_release.
 */
const void *interval_tree_prefetch(const struct interval_tree *t, uint64_t first);
void interval_tree_prefetch_entry(const void *place, uint64_t first, uint64_t value);

/* Takes an interval out; false when there is none with this `first` and `value`. */
bool interval_tree_remove(struct interval_tree *t, uint64_t first, uint64_t value);

/*
 * Calls `visit` for every interval that has an address in [low, high], in order of (first, value),
 * until it returns false. The tree must not change meanwhile. Returns false when it was stopped.
 */
typedef bool interval_visit(void *ctx, const struct interval *i);
bool interval_tree_overlap(const struct interval_tree *t, uint64_t low, uint64_t high,
                           interval_visit *visit, void *ctx);

/* The same for all that cover one address. */
static inline bool interval_tree_stab(const struct interval_tree *t, uint64_t address,
                                      interval_visit *visit, void *ctx)
{
    return interval_tree_overlap(t, address, address, visit, ctx);
}

/* Whether every invariant holds; for tests. */
bool interval_tree_is_sound(const struct interval_tree *t);

#endif
