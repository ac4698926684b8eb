#ifndef TIDEMARK_BASE_RUN_HEAP_H
#define TIDEMARK_BASE_RUN_HEAP_H

/*
 * For merging sorted runs: their numbers as a heap, with the run whose next element comes first at
 * the top. Inline, so that the comparison is, too.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

struct run_heap {
    size_t *at;
    size_t n; /* runs that are not at their end */
};

/* Whether the next element of run `a` comes before that of run `b`. Runs are never equal. */
typedef bool run_before(const void *ctx, size_t a, size_t b);

/* All runs from 0 on, in no order yet. False when memory is short. */
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

/* Every run has its first element. */
static inline void run_heap_order(struct run_heap *h, run_before *before, const void *ctx)
{
    for (size_t i = h->n / 2; i-- > 0;)
        run_heap_sift(h, i, before, ctx);
}

/* The run at the top has gone on to its next element, or to its end. */
static inline __attribute__((always_inline)) void
run_heap_advance(struct run_heap *h, bool ended, run_before *before, const void *ctx)
{
    if (ended)
        h->at[0] = h->at[--h->n];
    run_heap_sift(h, 0, before, ctx);
}

#endif
