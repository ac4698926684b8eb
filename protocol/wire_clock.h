#pragma once

/*
 * Converts the client's ticks to nanoseconds with exactly the arithmetic of the official server, so
 * that both give the same number: difference in 64-bit integers, one multiplication in double,
 * truncation. Source: server/TracyWorker.hpp TscTime @ v0.9.1 … v0.14.0.
 */

#include <stdint.h>

struct wire_clock {
    int64_t begin; /* ticks at time 0 */
    double mul;    /* ns per tick, finite and > 0 */
};

/* Truncates a double; saturates at the limits of int64_t. */
static inline int64_t clock_truncate(double ns)
{
    if (__builtin_expect(ns >= 0x1p63, 0))
        return INT64_MAX;
    if (__builtin_expect(ns < -0x1p63, 0))
        return INT64_MIN;
    return (int64_t)ns;
}

/* Nanoseconds since time 0 of an absolute tick value; accepts any value. */
static inline int64_t clock_ns(const struct wire_clock *c, int64_t ticks)
{
    return clock_truncate((double)(int64_t)((uint64_t)ticks - (uint64_t)c->begin) * c->mul);
}
