#ifndef TIDEMARK_ANALYSIS_CSVEXPORT_GPU_LIST_H
#define TIDEMARK_ANALYSIS_CSVEXPORT_GPU_LIST_H

/*
 * The GPU zones of a trace by source location. Within a context the official tools take the threads
 * in the order of a hash map of their ids, and source locations that the trace does not list, in
 * the order in which their zones then come; the list does the same. So places are known at the end
 * only, and until then the zones wait in a file-backed column.
 *
 * Source: the reading of `gpuData`, `ProcessTimelineGpu` and `ReconstructZoneStatistics` in
 * server/TracyWorker.cpp @ v0.14.0.
 */

#include <stdbool.h>
#include <stdint.h>

#include "analysis/csvexport/hash_order.h"
#include "analysis/csvexport/zone_groups.h"
#include "analysis/csvexport/zone_list.h"
#include "base/err.h"
#include "base/map.h"
#include "base/spool.h"
#include "base/vec.h"
#include "trace/file/record.h"

/* A GPU zone that ended later than it began. */
struct gpu_zone {
    uint64_t number; /* over all GPU zones, in the order of beginnings */
    int64_t start;
    int64_t span;
    uint64_t srcloc; /* as unsigned 16 bits */
};

struct open_gpu_zone {
    uint64_t number;
    int64_t start;
    int16_t srcloc;
};

/* The zones of a thread in a context. */
struct gpu_segment {
    uint64_t first;   /* number of the first */
    uint64_t moved;   /* its place among all zones as official tools take them */
    size_t locations; /* where its source locations begin in `locations` */
};

struct gpu_location {
    uint64_t number; /* of the first zone */
    int16_t srcloc;
};

struct gpu_list {
    struct zone_groups *groups;
    struct spool spool;
    struct column zones; /* struct gpu_zone, in the order of the file */
    VEC(struct open_gpu_zone) open;
    uint64_t count; /* zones so far, those that do not count included */
    VEC(struct gpu_segment) segments;
    /* the context at hand */
    size_t context;                     /* its first segment */
    struct hash_order order;            /* of its threads */
    struct map threads;                 /* id → segment */
    VEC(struct gpu_location) locations; /* by segment, those seen in it */
    size_t base;                        /* how many locations there were in the contexts before */
    size_t *seen; /* source location → 1 + base + its last position in `locations` */
};

/* `groups` lists the source locations and outlives the list, which must not move. */
int gpu_list_init(struct gpu_list *l, struct zone_groups *groups, const char *dir, struct err *e);
void gpu_list_release(struct gpu_list *l);

/* A context begins; a thread of it. */
int gpu_list_context(struct gpu_list *l, struct err *e);
int gpu_list_thread(struct gpu_list *l, const struct rec_gpu_thread *r, struct err *e);

/* A zone begins; the innermost open zone ends. */
int gpu_list_begin(struct gpu_list *l, const struct rec_gpu_zone_begin *r, struct err *e);
int gpu_list_end(struct gpu_list *l, const struct rec_gpu_zone_end *r, struct err *e);

/* All zones were there: gives those whose name passes to `rows`. */
int gpu_list_finish(struct gpu_list *l, const struct names *names, const struct name_filter *filter,
                    struct zone_list *rows, struct err *e);

#endif
