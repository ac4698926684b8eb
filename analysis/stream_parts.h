#ifndef TIDEMARK_ANALYSIS_STREAM_PARTS_H
#define TIDEMARK_ANALYSIS_STREAM_PARTS_H

/* What files of analysis/stream_figures.h have in common. */

#include <stddef.h>
#include <stdint.h>

#include "analysis/stream_figures.h"
#include "base/err.h"

/* What is left of a step when a stream has passed, for the figures by group. */
struct log_step {
    uint32_t what; /* call stack << 2 | LOG_FREE | LOG_LATER */
    uint32_t size_low;
    uint16_t size_high;
} __attribute__((packed));

#define LOG_LATER 1u /* than the step before: a new nanosecond */
#define LOG_FREE 2u

/* A block is allocated, or freed. */
struct stream_step {
    int64_t time;
    int64_t freed; /* later, by the thread that allocates it now; else INT64_MAX */
    uint64_t size;
    uint32_t callstack;
    uint16_t thread;
    uint16_t kind;
};

#define STEP_FREE 1u
#define STEP_TEMPORARY 2u /* a free by the thread that allocated the block in this nanosecond */

#define STEPS_AHEAD 16u /* so many further steps can be read behind those that are counted */

/*
 * Counts steps in order of time, but for the sums of all allocations and frees of the pool. `ctx`
 * is a struct stream_counting; nothing else is touched. -1 with `e`.
 */
int stream_count(void *ctx, const struct stream_step *steps, size_t n, struct err *e);

#endif
