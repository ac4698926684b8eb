#pragma once

/*
 * What the kernel counted of the process's memory over time, from the plots of
 * trace/store/kernel_plot.h: it was read some times a second, and counts until the next reading.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "trace/store/store.h"

/* A reading; bytes. */
struct kernel_reading {
    int64_t time;      /* ns */
    uint64_t resident; /* RSS: the sum of the next three */
    uint64_t anonymous, file, shared;
    uint64_t swapped;
};

/* A piece of time: the first of the readings with the highest RSS that count in it. */
struct kernel_bucket {
    struct kernel_reading high;
    bool known; /* false before the first and after the last reading */
};

struct kernel_curve {
    struct kernel_bucket *buckets; /* NULL: the trace has no such plots */
    size_t count;
    struct kernel_reading last; /* the last reading before `end` */
};

/*
 * [begin, end) in `count` pieces, of which piece i begins at begin + i * (end - begin) / count,
 * rounded down. `t` has the plots: see trace_load_options. `c` need not be initialised. Release it
 * in any case.
 */
int kernel_curve_build(struct kernel_curve *c, struct trace *t, int64_t begin, int64_t end,
                       size_t count, struct err *e);
/* The time of the last reading, or `otherwise` if there is none or it is earlier. */
int64_t kernel_curve_end(const struct trace *t, int64_t otherwise);
void kernel_curve_release(struct kernel_curve *c);
