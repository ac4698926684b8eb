#ifndef TIDEMARK_ANALYSIS_GPU_LIST_H
#define TIDEMARK_ANALYSIS_GPU_LIST_H

/*
 * The GPU zones of a trace by source location. Within a context the official tools take the threads
 * in the order of a hash map of their ids; the list does the same.
 *
 * Source: the reading of `gpuData` and `ProcessTimelineGpu` in server/TracyWorker.cpp @ v0.14.0.
 */

#include <stdint.h>

#include "analysis/hash_order.h"
#include "analysis/zone_list.h"
#include "base/err.h"
#include "base/map.h"
#include "base/vec.h"
#include "trace/record.h"

struct open_gpu_zone {
    uint64_t number;
    int64_t start;
    int16_t srcloc;
};

/* A GPU zone that ended later than it began. */
struct gpu_zone {
    uint64_t number;
    int64_t start;
    int64_t span;
    int16_t srcloc;
};

struct gpu_list {
    VEC(struct open_gpu_zone) open;
    uint64_t count;          /* zones so far */
    struct hash_order order; /* thread ids of the context at hand */
    struct map threads;      /* of those: id → position in `segments` */
    VEC(struct zone_segment) segments;
    size_t context; /* where the context at hand begins in `segments` */
    bool moved;     /* some threads are not in the order of the file */
};

void gpu_list_release(struct gpu_list *l);

/* A context begins; a thread of it; the last context has ended. */
int gpu_list_context(struct gpu_list *l, struct err *e);
int gpu_list_thread(struct gpu_list *l, const struct rec_gpu_thread *r, struct err *e);

int gpu_list_begin(struct gpu_list *l, const struct rec_gpu_zone_begin *r, struct err *e);

/* The innermost open zone ends. False when it does not count. */
bool gpu_list_end(struct gpu_list *l, const struct rec_gpu_zone_end *r, struct gpu_zone *out);

/* All zones were there: gives the segments to `rows`. */
int gpu_list_finish(struct gpu_list *l, struct zone_list *rows, struct err *e);

#endif
