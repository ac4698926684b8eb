#ifndef TIDEMARK_ANALYSIS_QUESTIONS_USAGE_H
#define TIDEMARK_ANALYSIS_QUESTIONS_USAGE_H

/*
 * How much of each pool was in use over time: values at the ends of nanoseconds, frees before
 * allocations. Memory follows live blocks.
 */

#include <stdint.h>

#include "analysis/figures/selection.h"
#include "base/err.h"

struct usage_point {
    uint64_t key; /* of the pool; of the first one where several have its name */
    int64_t time; /* ns; the values hold from here on */
    uint64_t bytes;
    uint64_t count; /* of live blocks */
};

/*
 * Hands over the points of the selected allocations; those of a pool in order of time, pools mixed.
 * With `points` = 0 each nanosecond in which something happened gives one. Else the trace is cut
 * into so many stretches of equal length, and of each those with the lowest and the highest number
 * of bytes are given, and the last one: so peaks stay exact.
 */
int usage_walk(struct selection *s, uint64_t points,
               int (*put)(void *ctx, const struct usage_point *p, struct err *e), void *ctx,
               struct err *e);

#endif
