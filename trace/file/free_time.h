#pragma once

/*
 * The time at which a block was freed, in nanoseconds since the trace began, or NEVER_FREED.
 * Programs allocate before their client reads the clock, so times of blocks and frees may be
 * negative. A missing free is therefore a separate state, which a comparison of times cannot
 * detect.
 */

#include <stdbool.h>
#include <stdint.h>

#define NEVER_FREED INT64_C(-1)

static inline bool is_freed(int64_t time)
{
    return time != NEVER_FREED;
}

/* Whether a block is still live at `end`, the exclusive end of the examined range. */
static inline bool is_live_before(int64_t freed, int64_t end)
{
    return !is_freed(freed) || freed >= end;
}

/* The stored time of a free. The nanosecond that encodes "never" is rounded up to the next. */
static inline int64_t time_of_free(int64_t time)
{
    return time == NEVER_FREED ? 0 : time;
}
