#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/*
 * Binary heaps in arrays: the element that comes before all others is at position 0. `BEFORE` is an
 * expression on the positions `a` and `b`: whether the element at `a` comes before that at `b`.
 */

#define HEAP_SWAP(at, a, b)                                                                        \
    do {                                                                                           \
        const __typeof__(*(at)) swapped_ = (at)[a];                                                \
        (at)[a] = (at)[b];                                                                         \
        (at)[b] = swapped_;                                                                        \
    } while (0)

/* Restores the heap of `n` elements after the element at `from` was replaced by a later one. */
#define HEAP_DOWN(at, n, from, a, b, BEFORE)                                                       \
    for (size_t b = (from), at_ = SIZE_MAX; at_ != (b);) {                                         \
        at_ = (b);                                                                                 \
        for (size_t a = 2 * at_ + 1; (a) <= 2 * at_ + 2 && (a) < (n); (a)++) {                     \
            if (BEFORE)                                                                            \
                (b) = (a);                                                                         \
        }                                                                                          \
        if ((b) != at_)                                                                            \
            HEAP_SWAP(at, at_, b);                                                                 \
    }

/* The same after an element was added at `from`, the last position. */
#define HEAP_UP(at, from, a, b, BEFORE)                                                            \
    for (size_t a = (from); (a) > 0;) {                                                            \
        const size_t b = ((a)-1) / 2;                                                              \
        if (!(BEFORE))                                                                             \
            break;                                                                                 \
        HEAP_SWAP(at, a, b);                                                                       \
        (a) = (b);                                                                                 \
    }

/*
 * Merges sorted runs: a heap of run numbers, with the run whose next element is smallest at the
 * top. It is inline so that the comparison is inlined, too.
 */
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
    HEAP_DOWN(h->at, h->n, i, a, b, before(ctx, h->at[a], h->at[b]));
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
