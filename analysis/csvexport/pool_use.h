#pragma once

/*
 * The use of a memory pool over time: a point for each allocation and each free, in order of time,
 * frees before allocations. Events come in the order of the file, that of allocations. Frees to
 * come wait in a queue, as many as there are live blocks, and so do allocations of one time.
 *
 * Source: `ReconstructMemAllocPlot` in server/TracyWorker.cpp @ v0.14.0.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/due_queue.h"
#include "base/err.h"
#include "base/spool.h"
#include "trace/file/record.h"

struct listed_point {
    int64_t time; /* ns */
    double value;
};

/* Bytes in memory for frees to come, and for allocations that wait. */
#define POOL_USE_BOUND ((size_t)16 << 20)

struct pool_use {
    struct column *points;          /* the output, struct listed_point */
    struct due_queue frees, allocs; /* key_of a time → bytes */
    int64_t time;                   /* of the newest allocations */
    double bytes;                   /* in use */
};

/* `dir`: folder for what exceeds the bound; NULL: $TMPDIR, else /var/tmp. */
void pool_use_init(struct pool_use *u, struct column *points, const char *dir);
void pool_use_release(struct pool_use *u);

/* Begins a pool: nothing is in use at `time`. */
int pool_use_begin(struct pool_use *u, int64_t time, struct err *e);
int pool_use_add(struct pool_use *u, const struct rec_memory_event *r, size_t n, struct err *e);
/* Ends the pool: writes the remaining points. */
int pool_use_end(struct pool_use *u, struct err *e);
