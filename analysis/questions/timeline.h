#pragma once

/*
 * Memory use over time: a range of time in buckets of equal length, for each pool. Use is that at
 * the end of a nanosecond, frees before allocations, so the maximum of all buckets is the pool's
 * peak. One sweep; memory grows with buckets and pools.
 */

#include <stdbool.h>
#include <stdint.h>

#include "analysis/figures/selection.h"
#include "analysis/figures/kernel_curve.h"
#include "analysis/questions/step_curve.h"
#include "base/err.h"
#include "base/vec.h"

struct timeline_series {
    struct view name; /* of the pool */
    struct timeline_bucket *buckets;
    uint64_t use, live; /* while building */
    int64_t now;
    size_t bucket;      /* of a time not after the next step's */
    int64_t bucket_end; /* exclusive */
    bool any;
};

struct timeline {
    int64_t begin, end; /* ns; the end is exclusive */
    size_t count;       /* buckets */
    bool together;      /* one series, called "all", for all pools */
    VEC(struct timeline_series) series;
    struct kernel_curve kernel; /* of timeline_build; the whole process, whatever is selected */
};

struct timeline_options {
    int64_t begin, end; /* the window [begin, end), ns */
    size_t buckets;     /* at most; none is shorter than a nanosecond */
    bool together;      /* all pools as one */
};

/*
 * The use of the selection; blocks allocated before the range are included. The selection must
 * outlive `t`. Of a trace of figures only, the buckets are whole steps of its pools (step_curve.h),
 * so that the window and they may be longer than asked for; ERR_CHECK if the window is shorter than
 * a step.
 */
int timeline_build(struct timeline *t, struct selection *s, const struct timeline_options *o,
                   struct err *e);
void timeline_release(struct timeline *t);

/*
 * The same in a sweep with several observers: begin, pass the steps to the observer, finish. After
 * a failed sweep, release it.
 */
int timeline_begin(struct timeline *t, const struct selection *s, const struct timeline_options *o,
                   struct err *e);
struct memory_observer timeline_observer(struct timeline *t);
void timeline_finish(struct timeline *t);

/* The start of bucket `i`, ns; i = count: the end of the last one. */
int64_t timeline_time(const struct timeline *t, size_t i);

/* Stands for buckets that are left out, in the list of timeline_columns. */
#define TIMELINE_GAP SIZE_MAX

/*
 * The buckets to draw, by time: all but those in stretches of `least` buckets or more without
 * events and with the same RSS, each of which is one TIMELINE_GAP between two buckets. `columns`
 * has room for t->count of them. Returns their number; *gaps: how many stretches are left out.
 */
size_t timeline_columns(const struct timeline *t, size_t least, size_t *columns, size_t *gaps);

/* A local maximum of use. */
struct timeline_peak {
    int64_t time;
    uint64_t bytes;
    uint64_t rise; /* how far use falls on both sides before it is as high again */
};

/*
 * The local peaks of a series, by time, that rise by at least `least` bytes, one per bucket at
 * most, with exact heights. The caller frees *list; false if memory is short.
 */
bool timeline_peaks(const struct timeline *t, const struct timeline_series *s, uint64_t least,
                    struct timeline_peak **list, size_t *n);
