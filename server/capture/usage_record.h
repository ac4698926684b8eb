#pragma once

/*
 * A client's memory use over a session, for monitoring: a bounded number of points. When they are
 * full, each pair is merged into the higher one.
 */

#include <stdint.h>

#include "trace/store/store.h"

#define USAGE_POINTS 512u
#define USAGE_POOLS 16u /* pools with figures */

struct usage_sample {
    double seconds;              /* since the session began */
    uint64_t bytes;              /* live in all pools */
    uint64_t blocks;             /* live in all pools */
    uint64_t pools[USAGE_POOLS]; /* live bytes of the first pools */
};

struct usage_record {
    double interval; /* seconds per point; 0: not begun */
    unsigned count;
    unsigned pools; /* pools with figures */
    struct usage_sample points[USAGE_POINTS];
    uint64_t peak; /* highest use so far, also between samples */
};

#define USAGE_SHAPE 40u

/*
 * The highest use of up to USAGE_SHAPE runs of equally many points, in percent of `peak`, oldest
 * first. Returns their number.
 */
unsigned usage_record_shape(const struct usage_record *r, uint8_t percent[USAGE_SHAPE]);

/* Call it regularly; `seconds` is the time since the beginning. */
void usage_record_add(struct usage_record *r, const struct memory *memory, double seconds);
