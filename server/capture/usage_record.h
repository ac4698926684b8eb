#ifndef TIDEMARK_SERVER_CAPTURE_USAGE_RECORD_H
#define TIDEMARK_SERVER_CAPTURE_USAGE_RECORD_H

/*
 * How much a client used over the time of a session, for who watches it: a bounded number of
 * points, however long it runs. When they are full, of each two the higher one stays.
 */

#include <stdint.h>

#include "trace/store/store.h"

#define USAGE_POINTS 512u
#define USAGE_POOLS 16u /* that have figures of their own */

struct usage_sample {
    double seconds;              /* since the session began */
    uint64_t bytes;              /* live in all pools */
    uint64_t blocks;             /* live in all pools */
    uint64_t pools[USAGE_POOLS]; /* live bytes of the first pools */
};

struct usage_record {
    double interval; /* seconds for each point; 0: it has not begun */
    unsigned count;
    unsigned pools; /* that have figures */
    struct usage_sample points[USAGE_POINTS];
    uint64_t peak; /* highest `bytes` of all samples */
};

/* To be called now and then, `seconds` after the beginning. */
void usage_record_add(struct usage_record *r, const struct memory *memory, double seconds);

#endif
