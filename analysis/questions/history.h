#pragma once

/*
 * All selected allocations of a loaded trace by address, for queries of an address or a range at
 * any time. Each pool has an array in order of address, with 30 bytes for an allocation. Beside
 * every 64 entries there is their highest address, and so on for every 64 of those. With the
 * entries before a range's end, it is searched as an interval tree whose nodes have 64 children.
 */

#include <stdbool.h>
#include <stdint.h>

#include "analysis/figures/selection.h"
#include "analysis/questions/interval_tree.h"
#include "base/err.h"
#include "base/vec.h"

/* The rest of an allocation is read through its index. */
struct history_entry {
    uint64_t first;
    uint64_t size : 48;
    uint64_t time : 48;  /* signed */
    uint64_t after : 48; /* 1 + ns until it was freed; 0: live */
    uint32_t index;      /* in the pool's columns */
} __attribute__((packed));

#define HISTORY_LEVELS 6

struct history_pool {
    uint32_t number; /* in the trace */
    struct history_entry *entries;
    size_t count;
    uint64_t *reach[HISTORY_LEVELS]; /* highest address of each 64 of the level below */
    size_t reach_count[HISTORY_LEVELS];
    unsigned levels;
};

struct history {
    const struct selection *selection;
    VEC(struct history_pool) pools;
};

/*
 * Reads all selected allocations. `h` need not be initialised; the selection must outlive it. More
 * than 2^32 allocations in a pool are rejected.
 */
int history_build(struct history *h, struct selection *s, struct err *e);
void history_release(struct history *h);

/* A matching allocation. */
struct history_block {
    uint32_t pool; /* number in the trace */
    uint32_t index;
    uint64_t ptr, size;
    int64_t time, freed; /* NEVER_FREED: live */
};

/*
 * Calls `visit` for every allocation that has an address in [low, high], pool by pool in order of
 * address and time, until it returns false. A block of size 0 covers its own address.
 */
typedef bool history_visit(void *ctx, const struct history_block *b);
void history_overlap(const struct history *h, uint64_t low, uint64_t high, history_visit *visit,
                     void *ctx);

static inline bool history_is_live(const struct history_block *b, int64_t time)
{
    return b->time <= time && (!is_freed(b->freed) || b->freed > time);
}
