#ifndef TIDEMARK_TRACE_FILE_FREE_TIME_H
#define TIDEMARK_TRACE_FILE_FREE_TIME_H

/*
 * When a block was freed, in nanoseconds since the trace began, or that nothing freed it. Programs
 * allocate before their client reads the clock, so times of blocks and of frees may be negative:
 * a missing free is a state of its own, and no comparison of times can find it.
 */

#include <stdbool.h>
#include <stdint.h>

#define NEVER_FREED INT64_C(-1)

static inline bool is_freed(int64_t time)
{
    return time != NEVER_FREED;
}

/* Whether a block is still there at `end`, the first moment after what is looked at. */
static inline bool is_live_before(int64_t freed, int64_t end)
{
    return !is_freed(freed) || freed >= end;
}

/* The time of a free: one in the nanosecond that stands for "never" counts as in the next. */
static inline int64_t time_of_free(int64_t time)
{
    return time == NEVER_FREED ? 0 : time;
}

#endif
