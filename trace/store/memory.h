#pragma once

/*
 * Memory events of a trace, pool by pool: an append-only column of allocations, a parallel column
 * with the data of their frees, the exact set of live blocks, and running totals. Memory grows with
 * the live blocks; the columns are file-backed.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/map.h"
#include "base/pageable.h"
#include "base/spool.h"
#include "base/vec.h"
#include "trace/file/free_time.h"
#include "trace/file/store_records.h"
#include "trace/store/live_set.h"

/* An allocation, in order of time. Sizes in bytes (48 bits), times in ns (48 bits). */
struct memory_alloc {
    uint64_t ptr;
    uint64_t size_thread; /* size | thread index << 48 */
    int64_t time;
    uint32_t callstack;
} __attribute__((packed));

/* Its free, if any. The time is relative to the allocation, which takes few bits. */
struct memory_free {
    uint64_t after_thread; /* 1 + ns since the allocation, 0: still live | thread index << 48 */
    uint32_t callstack;
} __attribute__((packed));

/*
 * Counters that a free changes are not adjacent: compilers would change them as one vector, which
 * cannot be forwarded from the two stores of a preceding allocation.
 */
struct pool_totals {
    uint64_t frees;
    uint64_t allocations;
    uint64_t live; /* blocks */
    uint64_t total_bytes;
    uint64_t live_bytes;
    uint64_t low_address;  /* lowest ptr; UINT64_MAX while empty */
    uint64_t high_address; /* highest ptr + size */
};

/* The totals that only grow during a capture, over all parts. */
struct pool_sums {
    uint64_t allocations;
    uint64_t frees;
    uint64_t total_bytes;
};

struct pool {
    uint64_t key;         /* client pointer of the name; 0: default pool */
    uint32_t number;      /* index in memory.pools */
    struct column allocs; /* struct memory_alloc */
    struct column frees;  /* struct memory_free, same indices */
    struct live_set live;
    struct pool_totals totals;
    int64_t first_time; /* of the first allocation, if there is any */
    int64_t last_time;  /* of the latest one */
    uint64_t disorder;  /* allocations with an earlier time than their predecessor */
    /* Sums of earlier parts, without the blocks that each carried over. */
    struct pool_sums before;
    uint64_t faults; /* noted since the capture began, in all parts */
    bool counted;    /* its steps are only counted: the columns stay empty (struct memory_only) */
};

enum memory_op_kind { MEMORY_ALLOC, MEMORY_FREE };

/* A step of a pool's history for an observer, in order of time. */
struct memory_op {
    enum memory_op_kind kind;
    uint32_t pool;           /* index in memory.pools */
    int64_t time;            /* of this step */
    uint32_t callstack;      /* of this step (a free has its own); 0: none */
    uint16_t thread;         /* local index of the thread that did it */
    bool temporary;          /* a free: set by analysis/figures/selection.h, else false */
    struct live_block block; /* the block allocated or freed */
    int64_t freed;           /* an allocation in a sweep: time of its free; else NEVER_FREED */
};

/*
 * Receives every step, during a capture and again in a sweep of a saved trace, so that both give
 * the same figures.
 */
struct memory_observer {
    void *ctx;
    int (*op)(void *ctx, const struct memory_op *op, struct err *e);
    /* The same for several steps, for speed; NULL: `op` takes each. */
    int (*batch)(void *ctx, const struct memory_op *ops, size_t n, struct err *e);
    /* A sweep may call it in a second thread: it reads no columns and changes nothing shared. */
    bool beside;
    /*
     * The pools begin anew with their live blocks, which come as allocations
     * (trace/ingest/carry.h). NULL: such blocks are no steps for the observer.
     */
    void (*anew)(void *ctx);
};

/* Passes steps to an observer. */
static inline int memory_observe(const struct memory_observer *to, const struct memory_op *ops,
                                 size_t n, struct err *e)
{
    int status = 0;
    if (to->batch)
        return to->batch(to->ctx, ops, n, e);
    for (size_t i = 0; i < n && status == 0; i++)
        status = to->op(to->ctx, &ops[i], e);
    return status;
}

enum memory_fault_kind {
    FAULT_FREE_UNKNOWN, /* a free of an address that is not live in its pool */
    FAULT_ALLOC_TWICE,  /* an allocation at a live address */
};

#define FAULT_SAMPLES 3

struct memory_fault_sample {
    int64_t time;
    uint64_t ptr;
    uint64_t size; /* ALLOC_TWICE: of the new block */
    uint16_t thread;
    uint32_t other_callstack; /* ALLOC_TWICE: call stack of the live block */
};

/* Faults of one kind at one call stack: their number, the first and the last few. */
struct memory_fault {
    enum memory_fault_kind kind;
    uint32_t pool;
    uint32_t callstack;
    uint64_t count;
    struct memory_fault_sample first[FAULT_SAMPLES];
    struct memory_fault_sample
        last[FAULT_SAMPLES]; /* ring, newest at (count - 1) % FAULT_SAMPLES */
};

/* The allocations of a call stack, in all pools. */
struct callstack_sum {
    uint64_t count;
    uint64_t bytes; /* saturates */
};

struct memory_sweep;

/*
 * Events that are not in the columns: a sweep takes them from elsewhere (trace/load/load_replay.h).
 */
struct memory_replay {
    void *ctx;
    /* Passes the events of all pools, or of `only`, to the sweep, pool by pool. NULL: columns. */
    int (*run)(void *ctx, int64_t only, struct memory_sweep *to, struct err *e);
    void (*release)(void *ctx);
};

/*
 * A trace of figures only (analysis/figures/figures_only.h): its steps are counted as they come,
 * and no column has them. Sweeps refuse.
 */
struct memory_only {
    bool is;
    void *figures; /* as counted or decoded; NULL: they are not known */
    void (*release)(void *figures);
    /* Writes them behind the trace in `fd`, which is complete. NULL: there is nothing to write. */
    int (*append)(void *figures, int fd, struct err *e);
    struct buf bytes; /* as loaded, encoded; empty: none came with the trace, … */
    bool piped;       /* … which was not read from a regular file */
};

/* Sets ERR_CHECK: `what` needs events, and the trace has figures only. Returns -1. */
int memory_refuse(const char *what, struct err *e);

struct memory {
    struct spool *spool;
    struct pageable *pageable; /* allocator of faults and of what a sweep keeps; NULL: the heap */
    VEC(struct pool *) pools;
    struct map pool_numbers; /* key → index in pools */
    uint64_t pool_overflow;  /* look-ups that returned POOL_OTHER */
    /* In all pools together; kept while events come in, 0 in a trace that is only loaded. */
    uint64_t live_bytes;
    uint64_t peak_bytes; /* highest live_bytes, in order of arrival */
    VEC(struct memory_fault) faults;
    struct map fault_numbers;
    uint64_t unknown_frees; /* all, also those that are no faults (on-demand clients) */
    uint64_t null_frees;
    uint64_t double_allocations;
    /*
     * The recording misses some frees: an allocation at a live address implies a missed free and is
     * no fault.
     */
    bool misses_frees;
    uint64_t missed_frees;
    struct memory_observer observer; /* op == NULL: none */
    /*
     * By call stack id, of all allocations; ids from its length on have none. Kept while events
     * come in, and set by code that counts a file. Empty for a trace that is only loaded: ids in a
     * file are not checked when its events are read.
     */
    VEC(struct callstack_sum) stack_sums;
    struct memory_replay replay;
    struct memory_only only;
};

void memory_init(struct memory *m, struct spool *spool);
void memory_release(struct memory *m);

/*
 * A real program has a handful of pools; a client with more than this would exhaust memory. The
 * last pool therefore collects the events of all further pools. As its addresses come from several
 * pools, apparent faults in it are not faults.
 */
#define POOLS_MAX 4096u
#define POOL_OTHER UINT64_MAX /* a key that is not a pointer */

/* The number of the pool with that key, created if new; past the limit that of POOL_OTHER. */
int memory_pool(struct memory *m, uint64_t key, uint32_t *number, struct err *e);

/*
 * Appends an event of a saved trace unchanged, without faults or observer; time_free is NEVER_FREED
 * while live. Does not update the live set.
 */
int memory_append(struct memory *m, uint32_t pool, const struct rec_memory_event *ev,
                  struct err *e);

/*
 * The context of a step beside its address. The thread's 16 bits are stored in the top of a 64-bit
 * number: compilers would read a narrow variable back wider than it was written, which stalls the
 * processor.
 */
struct memory_place {
    int64_t time;
    uint64_t thread;
    uint32_t callstack;
};

/* Adds allocations of a call stack to its sum. */
int memory_sum_stack(struct memory *m, uint32_t callstack, uint64_t count, uint64_t bytes,
                     struct err *e);

/* Allocations and frees: trace/store/memory_steps.h. */

/* Sums since the capture began: a block that is live at the end of a part is counted once. */
struct pool_sums memory_pool_sums(const struct pool *p);

/* Frees every live block of the pool, in order of allocation. */
int memory_discard(struct memory *m, uint32_t pool, struct memory_place at, struct err *e);

/*
 * Replays the history of all pools, or of one (`only` = its index, else -1), to `to` in order of
 * time, frees before allocations at equal time (but never before their own allocation). With a
 * replay, that is the order within each pool. Memory is proportional to the live blocks, not to the
 * events.
 */
int memory_sweep(struct memory *m, int64_t only, const struct memory_observer *to, struct err *e);

#define SWEEP_BATCH 1024u /* steps */

struct memory_batch {
    size_t n;
    struct memory_op ops[SWEEP_BATCH];
};

/*
 * Takes batches of a sweep. `put` owns the steps and leaves an empty batch in *batch for the next
 * ones, the same or another.
 */
struct memory_batch_sink {
    void *ctx;
    int (*put)(void *ctx, struct memory_batch **batch, struct err *e);
};

/* The same in batches. `first` is the batch to fill first. */
int memory_sweep_batches(struct memory *m, int64_t only, struct memory_batch *first,
                         const struct memory_batch_sink *to, struct err *e);

/*
 * For a replay: the next event of a pool, with its number in it. -1 with `e`. memory_sweep_end
 * delivers what was taken, before the next pool.
 */
int memory_sweep_take(struct memory_sweep *s, uint32_t pool, uint64_t index,
                      const struct rec_memory_event *ev, struct err *e);
int memory_sweep_end(struct memory_sweep *s, struct err *e);

/*
 * Changes call stacks of recorded events: `event` gets each allocation with its free, pool by pool,
 * `live` each live block; they may change the call stacks only. Sums of call stacks follow. Call it
 * between events, not for a trace with a replay.
 */
int memory_restack(struct memory *m,
                   int (*event)(void *ctx, struct memory_alloc *alloc, struct memory_free *freed,
                                struct err *e),
                   int (*live)(void *ctx, struct live_block *block, struct err *e), void *ctx,
                   struct err *e);

static inline uint64_t memory_alloc_size(const struct memory_alloc *a)
{
    return a->size_thread & ((UINT64_C(1) << 48) - 1);
}

static inline uint16_t memory_alloc_thread(const struct memory_alloc *a)
{
    return (uint16_t)(a->size_thread >> 48);
}

/* The time of the block's free in ns, or NEVER_FREED. */
static inline int64_t memory_free_time(const struct memory_alloc *a, const struct memory_free *f)
{
    uint64_t after = f->after_thread & ((UINT64_C(1) << 48) - 1);
    return after ? a->time + (int64_t)(after - 1) : NEVER_FREED;
}

static inline uint16_t memory_free_thread(const struct memory_free *f)
{
    return (uint16_t)(f->after_thread >> 48);
}
