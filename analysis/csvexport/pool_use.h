#ifndef TIDEMARK_ANALYSIS_CSVEXPORT_POOL_USE_H
#define TIDEMARK_ANALYSIS_CSVEXPORT_POOL_USE_H

/*
 * The use of a memory pool over time: a point for each allocation and each free, in order of time.
 * Events come in the order of the file, that of allocations. Future frees are kept in memory, as
 * many as there are live blocks; if these are too many, the rest is sorted through a temporary
 * file.
 *
 * Source: `ReconstructMemAllocPlot` in server/TracyWorker.cpp @ v0.14.0.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/radix_heap.h"
#include "base/spool.h"
#include "trace/file/record.h"
#include "trace/store/spill.h"

struct listed_point {
    int64_t time; /* ns */
    double value;
};

/* Default number of pending frees in memory: 16 MiB, and as much again while they grow. */
#define POOL_USE_WAITING ((size_t)1 << 20)

struct pool_use {
    struct column *points;   /* the output, struct listed_point */
    size_t waiting_max;      /* pending frees in memory, and held allocations; at least 1 */
    struct radix_heap frees; /* radix_heap_key of a time → bytes */
    int64_t held_time;       /* of the newest allocations */
    VEC(uint64_t) held;      /* their bytes: frees of that time precede them */
    bool sorting;            /* later events go to these two: */
    struct column late_allocs;
    struct spill late_frees;
    double bytes; /* in use */
};

/* `spool` must outlive it; `dir`: see trace/store/spill.h. */
void pool_use_init(struct pool_use *u, struct column *points, struct spool *spool, const char *dir);
void pool_use_release(struct pool_use *u);

/* Begins a pool: nothing is in use at `time`. */
int pool_use_begin(struct pool_use *u, int64_t time, struct err *e);
int pool_use_add(struct pool_use *u, const struct rec_memory_event *r, size_t n, struct err *e);
/* Ends the pool: writes the remaining points. */
int pool_use_end(struct pool_use *u, struct err *e);

#endif
