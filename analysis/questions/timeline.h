#ifndef TIDEMARK_ANALYSIS_QUESTIONS_TIMELINE_H
#define TIDEMARK_ANALYSIS_QUESTIONS_TIMELINE_H

/*
 * Memory use over time: a window of time in buckets of equal length, for each pool. Use is that at
 * the end of a nanosecond, frees before allocations, so the highest of all buckets is the pool's
 * peak. One sweep; memory follows buckets and pools.
 */

#include <stdbool.h>
#include <stdint.h>

#include "analysis/figures/selection.h"
#include "base/err.h"
#include "base/vec.h"

struct timeline_bucket {
    uint64_t low, high; /* least and most bytes in use */
    int64_t high_time;  /* ns; when `high` was first reached, or the bucket's begin */
    uint64_t last;      /* bytes in use at its end */
    uint64_t high_live; /* most blocks */
    uint64_t last_live; /* blocks at its end */
    uint64_t allocations, frees;
    uint64_t allocated, freed; /* bytes */
};

struct timeline_series {
    struct view name; /* of the pool */
    struct timeline_bucket *buckets;
    uint64_t use, live; /* while building */
    int64_t now;
    bool any;
};

struct timeline {
    int64_t begin, end; /* ns; the end is not part of it */
    size_t count;       /* buckets */
    bool together;      /* one series, called "all", for all pools */
    VEC(struct timeline_series) series;
};

struct timeline_options {
    int64_t begin, end; /* the window [begin, end), ns */
    size_t buckets;     /* at most; none is shorter than a nanosecond */
    bool together;      /* all pools as one */
};

/*
 * What the selection sees; blocks allocated before the window are in use in it. The selection must
 * outlive `t`.
 */
int timeline_build(struct timeline *t, struct selection *s, const struct timeline_options *o,
                   struct err *e);
void timeline_release(struct timeline *t);

/*
 * The same in a sweep that has more to do: begin, hand what is swept to the observer, finish. After
 * a failed sweep release it.
 */
int timeline_begin(struct timeline *t, const struct selection *s, const struct timeline_options *o,
                   struct err *e);
struct memory_observer timeline_observer(struct timeline *t);
void timeline_finish(struct timeline *t);

/* When bucket `i` begins, ns; i = count: when the last one ends. */
int64_t timeline_time(const struct timeline *t, size_t i);

/* A time at which use is higher than around it. */
struct timeline_peak {
    int64_t time;
    uint64_t bytes;
    uint64_t rise; /* how far use falls on both sides of it before it gets as high again */
};

/*
 * The local peaks of a series, by time, that rise by at least `least` bytes: as fine as the buckets
 * are, and the highest of each exactly. The caller frees *list; false when memory is short.
 */
bool timeline_peaks(const struct timeline *t, const struct timeline_series *s, uint64_t least,
                    struct timeline_peak **list, size_t *n);

#endif
