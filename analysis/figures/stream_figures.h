#ifndef TIDEMARK_ANALYSIS_FIGURES_STREAM_FIGURES_H
#define TIDEMARK_ANALYSIS_FIGURES_STREAM_FIGURES_H

/*
 * The figures of a summary, found while a trace is read, without its memory events in the store.
 * In a file the events stand pool by pool in order of allocation, before the call stacks that they
 * refer to. So frees wait in a queue until they are due, figures are kept by call stack, and added
 * up by site when the sites are known. The one figure that cannot be added up, a site's own highest
 * use, follows from a log of the steps: call stack and size, nothing else.
 *
 * Memory: 16 bytes for each block that is live and freed later (base/due_queue.h), the counters of
 * call stacks, and the log within the budget of the store's spool. stream_figures_bound has the
 * first of them spilled, too.
 *
 * The figures are those of memory_sweep and analysis/figures/accounting.h. Some files cannot be
 * counted in this way: several pools of one name, which are one for a summary, pools beside one
 * whose events are out of order, and sums of 2^62 bytes. Then reading ends with `unsuited` set, and
 * the trace is to be read anew without this.
 */

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>

#include "analysis/figures/accounting.h"
#include "analysis/figures/selection.h"
#include "analysis/figures/stream_log.h"
#include "base/due_queue.h"
#include "base/err.h"
#include "base/pageable.h"
#include "trace/load/load.h"
#include "trace/store/store.h"

/* A block that may turn out to be temporary: nothing happened on its thread since. */
struct stream_candidate {
    int64_t freed; /* by the thread that allocated it; else INT64_MAX */
    uint64_t size;
    uint32_t callstack;
};

struct stream_thread {
    int64_t latest;                    /* ns; when it did something in the pool */
    int64_t soonest;                   /* when the first of the candidates is freed */
    struct stream_candidate first;     /* what it allocated then, if it did */
    VEC(struct stream_candidate) more; /* in the same nanosecond */
};

/* A pool that was read. */
struct stream_pool {
    uint32_t number;           /* in the trace */
    struct log_place from, to; /* its steps in the log */
};

/* Steps in order of time. */
struct stream_run {
    struct log_steps steps;  /* what goes to the log */
    uint64_t key[LOG_RUN];   /* time and thread, as in analysis/figures/stream_parts.h */
    int64_t freed[LOG_RUN];  /* see struct stream_candidate */
    uint64_t epoch[LOG_RUN]; /* the pool's newest peak before it */
};

/* What belongs to who counts steps (analysis/figures/stream_steps.c), maybe in a thread of their
 * own. */
struct stream_counting {
    struct pool_account *account; /* of the pool at hand */
    struct stream_thread *threads;
    size_t thread_count;
    struct pageable pageable; /* of their candidates */
    struct stream_log log;
    struct stream_run run;
    uint64_t counter_pages; /* made so far, to be held against what was read */
    bool scattered;         /* too many of them */
};

/* Sums of the pool at hand, which belong to the thread that brings steps in order. */
struct stream_sums {
    int64_t now;       /* of allocations read */
    uint64_t disorder; /* see struct pool */
    struct pool_totals totals;
};

struct stream_room;
struct stream_pipe;

struct stream_figures {
    struct trace *trace;
    size_t memory; /* see stream_figures_bound; 0: no bound */
    bool unsuited, counted;
    bool of_store; /* the records come from the trace itself, which has its own totals */
    bool disorder; /* in some pool */
    struct accounting callstacks; /* by the trace's numbers of pools, and call stack */
    VEC(struct stream_pool) pools;
    struct pool *pool;  /* at hand; NULL: none with events */
    struct spool spool; /* of the log, if `has_spool`: threads must not share one */
    bool has_spool;
    struct stream_pipe *pipe;
    struct stream_room *room;
    /* Two threads do not write side by side. */
    alignas(64) struct stream_counting counting;
    alignas(64) struct stream_sums sums;
    struct due_queue frees;
    VEC(uint64_t) large;        /* sizes that the queue's items have no room for */
    VEC(uint32_t) large_vacant; /* places in it */
};

/* `f` need not be initialised. The trace is one that is about to be loaded; it goes after `f`. */
void stream_figures_init(struct stream_figures *f, struct trace *t);
void stream_figures_release(struct stream_figures *f);

/*
 * Keeps frees to come and the log in so many bytes, what is beyond in temporary files; likewise the
 * events of a trace that turns out not to be countable. To be called before it is loaded, and
 * after of_store is set: the budget of such a trace stays.
 */
int stream_figures_bound(struct stream_figures *f, size_t bytes, struct err *e);

/*
 * Loads `path` into the trace, which was just initialised, without options: all but the memory
 * events, if they can be counted, and with them, if not. f->counted tells. `counts` and `info` as
 * in trace/load/load.h. What can be read but once is not tried.
 */
int stream_figures_load(struct stream_figures *f, const char *path, struct trace_counts *counts,
                        struct trace_info *info, struct err *e);

/* The first half of that: -1 with f->unsuited when the events cannot be counted. */
int stream_figures_read(struct stream_figures *f, const char *path, struct trace_counts *counts,
                        struct trace_info *info, struct err *e);

/*
 * Takes the records of pools, in the order of a file, and ignores others. What precedes the pools
 * in a file must be in the trace by then. If the records come from the trace itself, as in a save,
 * set f->of_store before the first one: the trace then stays unchanged.
 */
struct record_sink stream_figures_sink(struct stream_figures *f);

/* After the last record: all pools are counted. Releases what only counting needs. */
void stream_figures_end(struct stream_figures *f);

/*
 * Counts the events in the trace's store, of the selection's pools. `f` was just initialised. -1
 * with f->unsuited when they cannot be counted.
 */
int stream_figures_store(struct stream_figures *f, const struct selection *s, struct err *e);

/* Call stacks that are counted together. */
struct stream_grouping {
    const uint32_t *groups; /* by call stack; from group_count on 0 */
    size_t group_count;
    struct accounting *into; /* just initialised */
};

/*
 * Gives groupings their figures, by the selection's pools. The selection is one of pools only.
 */
int stream_figures_group(struct stream_figures *f, const struct selection *s,
                         const struct stream_grouping *groupings, size_t n, struct err *e);

/* The figures by call stack, by the selection's pools: `into` just initialised, `f` lives longer.
 */
int stream_figures_callstacks(const struct stream_figures *f, const struct selection *s,
                              struct accounting *into, struct err *e);

#endif
