#ifndef TIDEMARK_ANALYSIS_CSVEXPORT_POOL_USE_H
#define TIDEMARK_ANALYSIS_CSVEXPORT_POOL_USE_H

/*
 * The use of a memory pool over time: a point for each allocation and each free, in order of time,
 * from events in the order of the file, which is that of allocations. Frees that lie ahead wait in
 * memory, as many as blocks are live; when these are too many, the rest is sorted through a
 * temporary file.
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

/* Frees that may wait in memory by default: 16 MiB, and as much again while they grow. */
#define POOL_USE_WAITING ((size_t)1 << 20)

struct pool_use {
    struct column *points;   /* where they go, struct listed_point */
    size_t waiting_max;      /* frees in memory, and held allocations; at least 1 */
    struct radix_heap frees; /* radix_heap_key of a time → bytes */
    int64_t held_time;       /* of the newest allocations */
    VEC(uint64_t) held;      /* their bytes: frees of that time come before them */
    bool sorting;            /* what follows is in these two: */
    struct column late_allocs;
    struct spill late_frees;
    double bytes; /* in use */
};

/* `spool` must outlive it; `dir`: see trace/store/spill.h. */
void pool_use_init(struct pool_use *u, struct column *points, struct spool *spool, const char *dir);
void pool_use_release(struct pool_use *u);

/* A pool begins: nothing is in use at `time`. */
int pool_use_begin(struct pool_use *u, int64_t time, struct err *e);
int pool_use_add(struct pool_use *u, const struct rec_memory_event *r, size_t n, struct err *e);
/* It ends: the points that are left. */
int pool_use_end(struct pool_use *u, struct err *e);

#endif
