#pragma once

/*
 * Shared by the files of analysis/figures/stream_figures.h: the steps that the reader passes to the
 * counter. Allocations and frees are each in order of time. The counter merges them, so that
 * nothing is copied for that.
 */

#include <stddef.h>
#include <stdint.h>

#include "analysis/figures/stream_figures.h"
#include "base/err.h"
#include "base/vec.h"

/*
 * A step has 16 bytes. The key is time << 16 | thread. The value is size << 24 | call stack or,
 * with STEP_LARGE, index << 24 | call stack, with size and owner in a list. Times and sizes have 48
 * bits, call stacks 24.
 */
#define STEP_TIME 16
#define STEP_SIZE 24
#define STEP_CALLSTACK ((UINT64_C(1) << STEP_SIZE) - 1)
#define STEP_LARGE (UINT64_C(1) << 63)
#define STEP_SIZE_ROOM 39 /* bits */
#define SIZE_MASK ((UINT64_C(1) << 48) - 1)

static inline bool step_is_large(uint64_t value)
{
    return value >> 63;
}

static inline uint64_t step_size(uint64_t value)
{
    return (value & ~STEP_LARGE) >> STEP_SIZE;
}

static inline uint64_t step_with_size(uint64_t value, uint64_t size)
{
    return (value & (STEP_LARGE | STEP_CALLSTACK)) | size << STEP_SIZE;
}

/* The time of a block's free, if the block may be temporary. */
#define FREED_ELSEWHERE INT64_MAX /* never, or by another thread */
/* This entry among the allocations is the free of the previous block in the same nanosecond… */
#define FREES_ELSEWHERE (-1)
/* …by the thread that allocated it, which makes it temporary. */
#define FREES_TEMPORARY (-2)

#define STREAM_ALLOCATIONS 4098u /* maximum of a portion, with frees among them */
#define STREAM_FREES 5120u

/*
 * Sizes that do not fit in steps, and those of blocks freed by another thread, if threads are
 * counted: owner << 48 | size.
 */
struct stream_sizes {
    uint64_t *at;
    size_t len, cap;
};

/* Adjacent steps, with a sentinel at the end that is later than all. */
struct stream_portion {
    size_t allocation_count, free_count;
    struct due_item allocations[STREAM_ALLOCATIONS + 1];
    int64_t freed[STREAM_ALLOCATIONS + 1];
    struct due_item frees[STREAM_FREES + 1];
    struct stream_sizes large;
};

/*
 * Counts the steps of a struct stream_portion in order of time, frees before allocations, except
 * the sums of all allocations and frees of the pool. `ctx` is a struct stream_counting; nothing
 * else is accessed. -1 with `e`.
 */
int stream_count(void *ctx, void *portion, struct err *e);

/*
 * Counts the steps of c->run, which are in order and whose call stacks have counters, except
 * temporary blocks.
 */
int stream_count_run(struct stream_counting *c, struct err *e);
