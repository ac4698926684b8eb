#ifndef TIDEMARK_BASE_RUN_HEAP_H
#define TIDEMARK_BASE_RUN_HEAP_H

/*
 * Merges sorted runs: a heap of run numbers, with the run whose next element is smallest at the
 * top. It is inline so that the comparison is inlined, too.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

struct run_heap {
    size_t *at;
    size_t n; /* runs not yet exhausted */
};

/* Whether the next element of run `a` precedes that of run `b`. Runs never compare equal. */
typedef bool run_before(const void *ctx, size_t a, size_t b);

/* Adds all runs, unordered. False when memory is short. */
static inline bool run_heap_init(struct run_heap *h, size_t runs)
{
    h->at = calloc(runs ? runs : 1, sizeof *h->at);
    h->n = h->at ? runs : 0;
    for (size_t i = 0; i < h->n; i++)
        h->at[i] = i;
    return h->at != NULL;
}

static inline void run_heap_release(struct run_heap *h)
{
    free(h->at);
    *h = (struct run_heap){0};
}

static inline __attribute__((always_inline)) void run_heap_sift(struct run_heap *h, size_t i,
                                                                run_before *before, const void *ctx)
{
    for (;;) {
        size_t least = i;
        for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < h->n; child++) {
            if (before(ctx, h->at[child], h->at[least]))
                least = child;
        }
        if (least == i)
            return;
        size_t other = h->at[i];
        h->at[i] = h->at[least];
        h->at[least] = other;
        i = least;
    }
}

/* Builds the heap once every run has its first element. */
static inline void run_heap_order(struct run_heap *h, run_before *before, const void *ctx)
{
    for (size_t i = h->n / 2; i-- > 0;)
        run_heap_sift(h, i, before, ctx);
}

/* Restores the order after the top run advanced to its next element or ended. */
static inline __attribute__((always_inline)) void
run_heap_advance(struct run_heap *h, bool ended, run_before *before, const void *ctx)
{
    if (ended)
        h->at[0] = h->at[--h->n];
    run_heap_sift(h, 0, before, ctx);
}

#endif
