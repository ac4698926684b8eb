#pragma once

/*
 * The GPU zones of a trace by source location. Within a context, the official tools process threads
 * in the order of a hash map of their ids, and unlisted source locations in the order in which
 * their zones then appear; this list does the same. So positions are known only at the end, and
 * until then the zones are in a file-backed column.
 *
 * Source: the reading of `gpuData`, `ProcessTimelineGpu` and `ReconstructZoneStatistics` in
 * server/TracyWorker.cpp @ v0.14.0.
 */

#include <stdint.h>

#include "analysis/csvexport/hash_order.h"
#include "analysis/csvexport/zone_groups.h"
#include "analysis/csvexport/zone_list.h"
#include "base/err.h"
#include "base/map.h"
#include "base/spool.h"
#include "base/vec.h"
#include "trace/file/record.h"

/* A GPU zone with an end after its start. */
struct gpu_zone {
    uint64_t number; /* over all GPU zones, in order of start */
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
    uint64_t first;   /* number of the first zone */
    uint64_t moved;   /* its position among all zones in the order of official tools */
    size_t locations; /* start of its source locations in `locations` */
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
    uint64_t count; /* zones so far, including those that do not count */
    VEC(struct gpu_segment) segments;
    /* the current context */
    size_t context;                     /* its first segment */
    struct hash_order order;            /* of its threads */
    struct map threads;                 /* id → segment */
    VEC(struct gpu_location) locations; /* by segment */
    size_t base;                        /* number of locations in earlier contexts */
    size_t *seen; /* source location → 1 + base + its last position in `locations` */
};

/* `groups` lists the source locations and must outlive the list. The list must not be moved. */
int gpu_list_init(struct gpu_list *l, struct zone_groups *groups, const char *dir, struct err *e);
void gpu_list_release(struct gpu_list *l);

/* Begins a context, or a thread of it. */
int gpu_list_context(struct gpu_list *l, struct err *e);
int gpu_list_thread(struct gpu_list *l, const struct rec_gpu_thread *r, struct err *e);

/* Begins a zone, or ends the innermost open one. */
int gpu_list_begin(struct gpu_list *l, const struct rec_gpu_zone_begin *r, struct err *e);
int gpu_list_end(struct gpu_list *l, const struct rec_gpu_zone_end *r, struct err *e);

/* After the last zone: passes those whose name matches the filter to `rows`. */
int gpu_list_finish(struct gpu_list *l, const struct names *names, const struct name_filter *filter,
                    struct zone_list *rows, struct err *e);
