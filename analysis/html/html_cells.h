#pragma once

/*
 * Sums over time, by key, in bounded memory. A cell holds the sums of a key within a step of time;
 * keys without events have none. If there are too many cells, the length of a step doubles, and
 * pairs of adjacent steps are joined.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/vec.h"

#define PAGE_VALUES_MAX 8

struct page_cell {
    uint32_t step;
    uint32_t key;
    int64_t v[PAGE_VALUES_MAX];
};

/* The current step of one key. */
struct page_sum {
    int64_t v[PAGE_VALUES_MAX];
    bool touched;
};

struct page_cells;

struct page_cells_options {
    unsigned values;    /* of a cell; the others stay 0 */
    uint32_t slots;     /* the maximum number of steps; a power of two */
    size_t cells_max;   /* steps are joined beyond that, while there are at least two … */
    uint32_t steps_min; /* … and more than these */
    void *ctx;
    /* A key's sums are complete for this step. May be NULL. */
    void (*settle)(void *ctx, uint32_t key, int64_t *v);
    /*
     * Joins a key's cells of the slots [first, first + half) and [first + half, first + 2 * half),
     * either of which may be NULL. NULL: values are added.
     */
    void (*join)(void *ctx, uint32_t key, uint32_t first, uint32_t half, const int64_t *a,
                 const int64_t *b, int64_t *out);
};

struct page_cells {
    struct page_cells_options options;
    unsigned shift;             /* a step has 2^shift slots */
    uint32_t step;              /* the current one */
    VEC(struct page_cell) list; /* in order of (step, key) */
    VEC(struct page_sum) sums;  /* by key */
    VEC(uint32_t) touched;      /* keys of the current step */
    VEC(struct page_cell) scratch;
};

void page_cells_init(struct page_cells *c, const struct page_cells_options *options);
void page_cells_release(struct page_cells *c);

/* Advances to the step of the slot; slots never decrease. */
int page_cells_advance(struct page_cells *c, uint32_t slot, struct err *e);

/*
 * The sums of a key in the current step, NULL if memory is short; *fresh is set if they are the
 * first of this step, all 0. Valid until the next call.
 */
int64_t *page_cells_at(struct page_cells *c, uint32_t key, bool *fresh, struct err *e);

/* Fetches the sums of a key, of which page_cells_at will be asked soon. */
static inline void page_cells_prefetch(const struct page_cells *c, uint32_t key)
{
    if (key < c->sums.len) {
        __builtin_prefetch(&c->sums.at[key], 1);
        __builtin_prefetch(&c->sums.at[key].touched, 1);
    }
}

/* Ends the last step. */
int page_cells_finish(struct page_cells *c, struct err *e);

/* Doubles the length of a step, after the end. */
int page_cells_halve(struct page_cells *c, struct err *e);

/* Renames keys, after the end. The cells of keys that are one then become one, the sum. */
void page_cells_rename(struct page_cells *c, const uint32_t *names);

static inline uint32_t page_cells_steps(const struct page_cells *c)
{
    return c->options.slots >> c->shift;
}
