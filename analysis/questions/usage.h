#pragma once

/*
 * The use of each pool over time: values at the ends of nanoseconds, frees before allocations.
 * Memory grows with live blocks.
 */

#include <stdint.h>

#include "analysis/figures/selection.h"
#include "base/err.h"

struct usage_point {
    uint64_t key; /* of the pool; of the first one if several have its name */
    int64_t time; /* ns; the values hold from here on */
    uint64_t bytes;
    uint64_t count; /* of live blocks */
};

/*
 * Passes on the points of the selected allocations; those of a pool in order of time, pools
 * interleaved. With `points` = 0, each nanosecond with a step has one. Else the trace is cut into
 * `points` intervals of equal length. Each passes on the points with the lowest and the highest
 * number of bytes, and the last one, so peaks are exact.
 */
int usage_walk(struct selection *s, uint64_t points,
               int (*put)(void *ctx, const struct usage_point *p, struct err *e), void *ctx,
               struct err *e);
