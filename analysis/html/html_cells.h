#ifndef TIDEMARK_ANALYSIS_HTML_HTML_CELLS_H
#define TIDEMARK_ANALYSIS_HTML_HTML_CELLS_H

/*
 * Sums over time, by key, in bounded memory: a cell holds what a key did within a step of time, and
 * only keys that did something have one. When there are more cells than wanted, steps become twice
 * as long, and each two neighbours one.
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

/* The step in progress, of one key. */
struct page_sum {
    int64_t v[PAGE_VALUES_MAX];
    bool touched;
};

struct page_cells;

struct page_cells_options {
    unsigned values;  /* of a cell; the others stay 0 */
    uint32_t slots;   /* shortest steps that there can be; a power of two */
    size_t cells_max; /* steps grow beyond that, as long as there are two of them */
    void *ctx;
    /* A key's sums are complete for this step. May be NULL. */
    void (*settle)(void *ctx, uint32_t key, int64_t *v);
    /*
     * Makes one of a key's cells of the slots [first, first + half) and [first + half, first + 2 *
     * half), either of which may be NULL. NULL: values are added.
     */
    void (*join)(void *ctx, uint32_t key, uint32_t first, uint32_t half, const int64_t *a,
                 const int64_t *b, int64_t *out);
};

struct page_cells {
    struct page_cells_options options;
    unsigned shift;             /* a step has 2^shift slots */
    uint32_t step;              /* in progress */
    VEC(struct page_cell) list; /* in order of (step, key) */
    VEC(struct page_sum) sums;  /* by key */
    VEC(uint32_t) touched;      /* keys of the step in progress */
    VEC(struct page_cell) scratch;
};

void page_cells_init(struct page_cells *c, const struct page_cells_options *options);
void page_cells_release(struct page_cells *c);

/* Goes on to the step that holds the slot; slots never go back. */
int page_cells_advance(struct page_cells *c, uint32_t slot, struct err *e);

/*
 * The sums of a key in the step in progress, NULL when memory is short; *fresh tells that they are
 * the first of this step, all 0. Valid until the next call.
 */
int64_t *page_cells_at(struct page_cells *c, uint32_t key, bool *fresh, struct err *e);

/* Ends the last step. */
int page_cells_finish(struct page_cells *c, struct err *e);

/* Makes steps twice as long, after the end. */
int page_cells_halve(struct page_cells *c, struct err *e);

static inline uint32_t page_cells_steps(const struct page_cells *c)
{
    return c->options.slots >> c->shift;
}

#endif
