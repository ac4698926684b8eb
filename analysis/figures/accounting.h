#pragma once

/*
 * Running figures per pool and per (pool, key). The key is the allocation's call stack id, a group
 * of call stacks, or the allocating thread. The same code observes a live capture and, through
 * memory_sweep, a saved trace.
 *
 * All figures are defined on use at the end of each distinct nanosecond, frees before allocations
 * (docs/decisions/figures.md). So they do not depend on the order of steps within a nanosecond,
 * which a saved trace does not keep. If time goes backwards, the newest time seen in the pool is
 * used.
 *
 * Of several equal peaks, the first counts. The value of every counter at the peak is kept
 * copy-on-write: each new peak of a pool has a number, and the first change of a counter after it
 * saves the counter's value. Nothing is copied per step.
 *
 * An observer must see every step from the first one. Sums saturate at 2^64 - 1 bytes
 * (base/saturate.h).
 */

#include <stdbool.h>
#include <stdint.h>

#include "analysis/figures/pool_account.h"
#include "base/err.h"
#include "base/vec.h"
#include "trace/store/memory.h"

struct accounting_options {
    const uint32_t *pools; /* pool number → number that it counts for; NULL: the same */
    size_t pool_count;
    const uint32_t *groups; /* call stack id → key; 0 for ids from group_count on; NULL: the id */
    size_t group_count;
    bool by_thread; /* the key is the allocating thread's number */
    bool judged;    /* steps come from a selection, which knows which blocks are temporary */
    bool sums_only; /* count only allocations and bytes of each key; no figures of pools */
    /* Returns the key of a step, instead of the above; NULL: as above. */
    int (*key_of)(void *ctx, const struct memory_op *op, uint32_t *key, struct err *e);
    void *key_ctx;
    struct pageable *pageable; /* of the counters; it must outlive them. NULL: the heap */
};

struct accounting {
    struct accounting_options options;
    VEC(struct pool_account *) pools; /* NULL for pools without steps */
    bool borrowed;                    /* all pools belong to another accounting */
};

/* The arrays in `options` (may be NULL) must outlive the accounting. */
void accounting_init(struct accounting *a, const struct accounting_options *options);
void accounting_release(struct accounting *a);

/* The account of a pool without steps, owned by `a`. NULL with `e` if memory is short. */
struct pool_account *accounting_add_pool(struct accounting *a, uint32_t pool, struct err *e);

/* Counts one step: the `op` of a struct memory_observer, with ctx the struct accounting. */
int accounting_op(void *ctx, const struct memory_op *op, struct err *e);

/* Prefetches the memory of a step, which is far slower than the work. Call it some steps ahead. */
void accounting_prefetch(const struct accounting *a, const struct memory_op *op);

static inline struct memory_observer accounting_observer(struct accounting *a)
{
    return (struct memory_observer){
        .ctx = a, .op = accounting_op, .beside = !a->options.key_of && !a->options.pageable};
}

/*
 * Sets figures computed elsewhere (analysis/figures/stream_figures.h), of a pool or a counter
 * without steps. No step may be counted after that.
 */
int accounting_put_pool(struct accounting *a, uint32_t pool, const struct pool_figures *figures,
                        struct err *e);
int accounting_put_counter(struct accounting *a, uint32_t pool, uint32_t key,
                           const struct counter *figures, struct err *e);

/* Shows a pool of `from` in `a`, which must hold only borrowed pools. `from` must outlive `a`. */
int accounting_borrow(struct accounting *a, uint32_t pool, const struct accounting *from,
                      uint32_t from_pool, struct err *e);

/* Figures up to and including the newest step. All zero for a pool without steps. */
void accounting_pool(const struct accounting *a, uint32_t pool, struct pool_figures *out);

/*
 * Iterates over the counters of a pool in order of their keys: *iter starts at 0; false at the end.
 */
bool accounting_next(const struct accounting *a, uint32_t pool, uint64_t *iter, uint32_t *key,
                     struct counter *out);
