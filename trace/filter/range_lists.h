#pragma once

/*
 * Internals of trace/filter/range.h: its state, and the lists that need more than a check per
 * element. begin_, count_ and end_ functions belong to the first pass, put_ functions to the
 * second. Errors are those of trace/filter/range.h.
 */

#include <string.h>

#include "base/map.h"
#include "base/vec.h"
#include "trace/filter/range.h"
#include "trace/filter/range_zones.h"
#include "trace/store/spill.h"

/* Frames that are copied to change them. */
#define PART_MAX 512u

#define HW_LISTS 6u

/* The current list, whose count was read and whose elements follow. */
struct list {
    enum record_type counted; /* the type of its count */
    uint64_t left;
    uint64_t kept;
};

/* The kept part of a frame set, as positions. */
struct frames {
    bool base, continuous;
    uint64_t position;
    uint64_t always;      /* number of first frames that are always kept */
    uint64_t first, last; /* continuous sets: also keep the frames from first to last */
    bool ended;           /* `last` has been found */
    size_t images_before; /* images of the frames that are always kept */
};

struct point {
    uint64_t position, before; /* `before`: of the point whose value holds at the begin */
    int64_t before_time;
    double before_value, min, max, sum;
};

/* A thread's CPU totals in the whole trace and in the range. */
struct cpu_totals {
    int64_t all_running; /* ns */
    int64_t running;
    uint32_t all_regions, regions;
    uint32_t migrations;
    int16_t cpu; /* latest CPU in the range; -1: none */
};

struct range_cpus {
    struct map numbers;            /* thread id → its external number */
    VEC(struct cpu_totals) totals; /* by external number */
    struct spill runs;
    unsigned lists; /* CPUs so far */
};

struct range {
    struct range_options options;
    struct record_sink next;
    struct spool spool;
    bool has_spool;
    struct tally tallies[REC_TYPE_COUNT]; /* by the type of the list's count */
    uint64_t totals[REC_TYPE_COUNT]; /* kept elements, for lists of lists that may become empty */
    struct list list;
    bool on_demand;
    struct frames frames;
    VEC(uint32_t) images; /* used by kept frames; sorted and unique in the second pass */
    uint64_t image;       /* position of the next image */
    struct map messages;  /* keys of the kept messages */
    struct range_zones zones, gpu_zones;
    struct range_cpus cpus;
    uint64_t thread_zones, thread_roots, depth;
    uint64_t context_zones;
    bool in_context, in_gpu_thread;
    struct point point;
    struct rec_pool pool;
    struct rec_pool_end pool_end;
    VEC(bool) open; /* second pass: whether the enclosing zones are kept */
    uint64_t samples;
    uint64_t hw_counts[HW_LISTS];
    unsigned hw_list;
    bool hw_kept;
};

/* ---- what is in the range */

static inline bool range_has(const struct range *r, int64_t t)
{
    return t >= r->options.begin && t < r->options.end;
}

/* A negative end means that there is none yet. */
static inline bool range_overlaps(const struct range *r, int64_t start, int64_t end)
{
    return start < r->options.end && (end < 0 || end >= r->options.begin);
}

static inline bool range_keeps_block(const struct range *r, const struct rec_memory_event *m)
{
    return m->time_alloc < r->options.end && is_live_before(m->time_free, r->options.begin);
}

static inline int range_take(struct range *r, enum record_type type, uint64_t *n, struct err *e)
{
    return tally_take(&r->tallies[type], n, e);
}

static inline int range_add(struct range *r, enum record_type type, uint64_t n, struct err *e)
{
    return tally_add(&r->tallies[type], n, e);
}

/* ---- frames and their images: trace/filter/range_frames.c */

void range_begin_frames(struct range *r, const struct rec_frame_set *set);
int range_count_frames(struct range *r, const struct rec_frame *frames, size_t n, struct err *e);
int range_end_frames(struct range *r, struct err *e);
int range_put_frame_set(struct range *r, const struct rec_frame_set *set, struct err *e);
void range_sort_images(struct range *r);
int range_put_frames(struct range *r, const struct rec_frame *frames, size_t n, struct err *e);
int range_put_image(struct range *r, const void *rec, struct err *e);

/* ---- CPU times of threads: trace/filter/range_cpus.c */

void range_cpus_init(struct range_cpus *c, const char *dir);
void range_cpus_release(struct range_cpus *c);
int range_add_cpu_thread(struct range *r, uint64_t id, struct err *e);
int range_count_cpu_switches(struct range *r, const struct rec_cpu_switch *switches, size_t n,
                             struct err *e);
int range_sum_cpu_threads(struct range *r, struct err *e);
void range_count_cpu_threads(struct range *r, const struct rec_cpu_thread *threads, size_t n);
int range_put_cpu_threads(struct range *r, const struct rec_cpu_thread *threads, size_t n,
                          struct err *e);

/* ---- plots and pools: trace/filter/range_values.c */

void range_begin_points(struct range *r);
void range_count_points(struct range *r, const struct rec_plot_point *points, size_t n);
int range_end_points(struct range *r, struct err *e);
int range_put_plot(struct range *r, const struct rec_plot *plot, struct err *e);
int range_put_points(struct range *r, const struct rec_plot_point *points, size_t n, struct err *e);
void range_count_memory(struct range *r, const struct rec_memory_event *events, size_t n);
void range_begin_pool(struct range *r);
int range_end_pool(struct range *r, struct err *e);
int range_put_pool(struct range *r, const struct rec_pool *pool, struct err *e);
int range_put_pool_end(struct range *r, const struct rec_pool_end *end, struct err *e);
