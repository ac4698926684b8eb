#pragma once

/*
 * Counts the figures of a summary while a trace is read, without storing its memory events. In a
 * file the events come pool by pool in order of allocation, before the call stacks to which they
 * refer. So frees wait in a queue until they are due, figures are counted by call stack, and added
 * up by site when the sites are known. The only figure that cannot be added up, a site's own peak,
 * is computed from a log of the steps, which has call stack and size only.
 *
 * Memory: 16 bytes for each block that is live and freed later (base/due_queue.h), 8 more by
 * thread if another thread frees it, the counters of call stacks, and the log within the budget of
 * the store's spool. stream_figures_bound makes the first of them spill, too.
 *
 * The figures are those of memory_sweep and analysis/figures/accounting.h. Some files cannot be
 * counted in this way: those with several pools of one name, which a summary combines; with several
 * pools and out-of-order events; and with sums of 2^62 bytes. Then reading ends with `unsuited`
 * set, and the trace must be read again without this.
 */

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>

#include "analysis/figures/accounting.h"
#include "analysis/figures/selection.h"
#include "analysis/figures/stream_log.h"
#include "base/due_queue.h"
#include "base/err.h"
#include "base/map.h"
#include "base/pageable.h"
#include "trace/load/load.h"
#include "trace/store/store.h"

/* A block that may be temporary: its thread had no other step since. */
struct stream_candidate {
    int64_t freed; /* by the thread that allocated it; else INT64_MAX */
    uint64_t size;
    uint32_t callstack;
};

struct stream_thread {
    int64_t latest;                    /* ns; its newest step in the pool */
    int64_t soonest;                   /* the earliest free of the candidates */
    struct stream_candidate first;     /* its allocation at that time, if any */
    VEC(struct stream_candidate) more; /* in the same nanosecond */
};

/* A pool that was read. */
struct stream_pool {
    uint32_t number;           /* in the trace */
    struct log_place from, to; /* its steps in the log */
    /*
     * Instead of a log: the peaks (group_peak) of its groups of several call stacks, by group_hash.
     * NULL: there is a log. Owned by others.
     */
    const struct map *peaks;
};

/* Identifies a set of call stacks: start with 0, and add them in ascending order. */
static inline uint64_t group_hash(uint64_t h, uint32_t callstack)
{
    h = (h ^ (callstack + UINT64_C(0x9e3779b97f4a7c15))) * UINT64_C(0xbf58476d1ce4e5b9);
    return h ^ h >> 29;
}

/* Steps in order of time. */
struct stream_run {
    struct log_steps steps;  /* for the log */
    uint64_t key[LOG_RUN];   /* time and thread, as in analysis/figures/stream_parts.h */
    int64_t freed[LOG_RUN];  /* see struct stream_candidate */
    uint64_t epoch[LOG_RUN]; /* the pool's newest peak before it */
    uint16_t owner[LOG_RUN]; /* the thread that allocated the block, if `by_thread` is counted */
};

/*
 * The state of the counter of steps (analysis/figures/stream_steps.c), which may run in a separate
 * thread.
 */
struct stream_counting {
    struct pool_account *account;   /* of the current pool */
    struct pool_account *by_thread; /* the same by thread; NULL: not counted */
    struct stream_thread *threads;
    size_t thread_count;
    struct pageable pageable; /* of their candidates and of the counters */
    struct stream_log log;
    struct stream_run run;
    uint64_t counter_pages; /* allocated so far; compared with the number of steps */
    bool scattered;         /* too many of them */
};

/* Sums of the current pool, owned by the thread that orders the steps. */
struct stream_sums {
    int64_t now;       /* time of the last allocation read */
    uint64_t disorder; /* see struct pool */
    struct pool_totals totals;
};

struct stream_room;
struct stream_pipe;

struct stream_figures {
    struct trace *trace;
    size_t memory;  /* see stream_figures_bound; 0: no bound */
    bool by_thread; /* set before the first record: `threads` are counted, too */
    bool unsuited, counted;
    bool of_store;   /* the records come from the trace itself, which already has totals */
    bool disorder;   /* in some pool */
    uint64_t bounds; /* of the groupings computed last: peaks that are lower bounds */
    struct accounting callstacks; /* by the trace's numbers of pools, and call stack */
    struct accounting threads;    /* the same by the thread that allocated */
    VEC(struct stream_pool) pools;
    struct pool *pool;  /* the current one; NULL: none with events */
    struct spool spool; /* of the log, if `has_spool`: threads must not share a spool */
    bool has_spool;
    struct stream_pipe *pipe;
    struct stream_room *room;
    /* Separate cache lines for two threads. */
    alignas(64) struct stream_counting counting;
    alignas(64) struct stream_sums sums;
    struct due_queue frees;
    VEC(uint64_t) large;        /* sizes that do not fit in the queue's items */
    VEC(uint32_t) large_vacant; /* free indices in it */
};

/* `f` need not be initialised. The trace is about to be loaded and must outlive `f`. */
void stream_figures_init(struct stream_figures *f, struct trace *t);
void stream_figures_release(struct stream_figures *f);

/*
 * Limits the memory of pending frees and the log; the rest goes to temporary files, as do the
 * events of a trace that cannot be counted. Call it before loading and after setting of_store, with
 * which the trace's budget is unchanged.
 */
int stream_figures_bound(struct stream_figures *f, size_t bytes, struct err *e);

/*
 * Loads `path` into the newly initialised trace, within its resident budget: without the memory
 * events if they can be counted, else with them; f->counted is set accordingly. `counts` and `info`
 * as in trace/load/load.h. Input that can be read only once is not counted.
 */
int stream_figures_load(struct stream_figures *f, const char *path, struct trace_counts *counts,
                        struct trace_info *info, struct err *e);

/* The first half of that: -1 with f->unsuited if the events cannot be counted. */
int stream_figures_read(struct stream_figures *f, const char *path, struct trace_counts *counts,
                        struct trace_info *info, struct err *e);

/*
 * Takes the records of pools, in the order of a file, and ignores others. Records before the pools
 * must be in the trace by then. If the records come from the trace itself, as in a save, set
 * f->of_store before the first one: the trace is not changed then.
 */
struct record_sink stream_figures_sink(struct stream_figures *f);

/*
 * Takes records that are needed whether they can be counted or not. False, with `f` released, if
 * they cannot.
 */
bool stream_figures_try(struct stream_figures *f, enum record_type type, const void *recs,
                        size_t n);

/* After the last record: ends the counting of all pools. Releases data needed only for counting. */
void stream_figures_end(struct stream_figures *f);

/*
 * For a trace that is loaded with its events, which are counted by stream_figures_try beside that:
 * begins, and flags the records in `wanted`.
 */
int stream_figures_beside(struct stream_figures *f, struct trace *t, bool *wanted, struct err *e);

/* Ends it, and gives the trace the sums by call stack. f->counted: it has events. */
int stream_figures_loaded(struct stream_figures *f, struct err *e);

/* A grouping of call stacks. */
struct stream_grouping {
    const uint32_t *groups; /* by call stack; 0 from group_count on */
    size_t group_count;
    struct accounting *into; /* newly initialised */
};

/*
 * Computes the figures of groupings by the selection's pools. The selection must restrict pools
 * only.
 */
int stream_figures_group(struct stream_figures *f, const struct selection *s,
                         const struct stream_grouping *groupings, size_t n, struct err *e);

/*
 * The peak of a group, of which a part of the log is gone. It is a lower bound where the call
 * stacks were divided otherwise by then.
 */
static inline uint64_t group_peak(uint64_t bytes, bool is_bound)
{
    return bytes << 1 | is_bound;
}
static inline uint64_t group_peak_bytes(uint64_t peak)
{
    return peak >> 1;
}
static inline bool group_peak_is_bound(uint64_t peak)
{
    return peak & 1;
}

/* What is known of the steps before those in the log. */
struct stream_past {
    const uint32_t *groups; /* by call stack; those from `count` on had no step */
    size_t count;
    const struct map *peaks; /* of the pool's groups then: group_peak by group */
};

/*
 * Adds the peaks of groups in `pool`, as group_peak, to `peaks`: those of several call stacks by
 * group_hash, or all of them by group. `log` has the steps since `past`; NULL: all steps.
 */
int stream_figures_peaks(struct stream_figures *f, uint32_t pool, const struct stream_log *log,
                         const struct stream_grouping *grouping, const struct stream_past *past,
                         bool by_hash, struct map *peaks, struct err *e);

/*
 * The figures by call stack, or f->threads, and the selection's pools. `into` must be newly
 * initialised; `f` must outlive it.
 */
int stream_figures_callstacks(const struct stream_figures *f, const struct selection *s,
                              struct accounting *into, struct err *e);
int stream_figures_threads(const struct stream_figures *f, const struct selection *s,
                           struct accounting *into, struct err *e);
