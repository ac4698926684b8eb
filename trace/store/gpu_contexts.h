#pragma once

/*
 * GPU contexts of a trace and their zones. A zone begins and ends on the CPU. Its two GPU times
 * arrive later, by the numbers of the queries that measure them. Memory grows with open zones and
 * unanswered queries; the columns are file-backed. Source: server/TracyWorker.cpp
 * Worker::ProcessGpu* @ v0.9.1 … v0.14.0.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/map.h"
#include "base/spool.h"
#include "base/vec.h"

/* A zone. Zones are ordered by begin: depth first, as in the file. */
struct gpu_zone {
    int64_t cpu_start; /* ns */
    uint32_t callstack;
    int16_t location;
    uint16_t thread; /* local thread index; 0 in a context of a single thread */
    uint16_t query;  /* of the begin */
} __attribute__((packed));

/* The data of a zone's end. Times are distances from the zone's cpu_start. */
struct gpu_zone_end {
    uint64_t cpu_end; /* gpu_distance; 0: open */
    uint32_t children;
} __attribute__((packed));

/* A time as its distance from cpu_start, which takes few bits; never 0, which means "none". */
static inline uint64_t gpu_distance(int64_t cpu_start, int64_t time)
{
    int64_t d = time - cpu_start;
    return 1 + (((uint64_t)d << 1) ^ (d < 0 ? UINT64_MAX : 0));
}

/* Decodes a distance; -1 for "none". */
static inline int64_t gpu_time_at(int64_t cpu_start, uint64_t distance)
{
    if (distance == 0)
        return -1;
    distance--;
    return cpu_start + (int64_t)((distance >> 1) ^ (distance & 1 ? UINT64_MAX : 0));
}

/* A zone that is open on the CPU or waits for GPU times. */
struct gpu_pending {
    uint64_t zone; /* index in its thread's columns */
    int64_t cpu_start;
    int64_t gpu_start; /* -1: unknown */
    uint32_t thread;   /* index in the context's list */
    uint32_t callstack;
    int16_t location;
    uint16_t query; /* of the begin */
    uint8_t uses;   /* one for the stack, one for each query; 0: free entry */
    bool open;      /* on the stack */
    bool carried;   /* began in an earlier part of the capture */
};

struct gpu_open {
    uint32_t pending;
    uint32_t children;
};

/* The zones of one thread, or all zones of a context of a single thread. */
struct gpu_thread {
    uint16_t number;      /* local thread index; 0 in a context of a single thread */
    struct column zones;  /* struct gpu_zone */
    struct column ends;   /* struct gpu_zone_end, same indices */
    struct column starts; /* GPU times as uint64_t gpu_distance, same indices */
    struct column stops;
    VEC(struct gpu_open) stack;
    uint64_t roots;
};

struct gpu_note_name {
    int64_t id;
    uint32_t name; /* string number */
};

/* The latest value of an annotation for each query number and kind. */
struct gpu_note {
    int64_t id;
    double value;
    uint16_t query;
};

#define GPU_QUERY_PAGE 256u

struct gpu_context {
    uint64_t thread; /* the context's thread; 0: any */
    float period;    /* ns per tick */
    uint8_t type;
    bool calibrated;
    uint32_t name;     /* string number */
    uint64_t zones;    /* zones with a GPU start */
    uint64_t overflow; /* range of the GPU's counter; 0 until it wraps */
    uint64_t wraps;
    int64_t last_gpu_time; /* ticks */
    int64_t difference;    /* ns; from the CPU's clock to the GPU's */
    int64_t calibrated_gpu;
    int64_t calibrated_cpu;
    double calibration;
    int64_t announced_gpu; /* as announced, to detect repeated announcements */
    int64_t announced_cpu;
    VEC(struct gpu_thread *) threads;
    struct map thread_numbers; /* local thread index → index in threads */
    VEC(struct gpu_pending) pending;
    VEC(uint32_t) unused; /* free indices in pending */
    uint32_t **queries;   /* pages of 1 + index in pending, by query number; NULL until used */
    VEC(struct gpu_note_name) note_names;
    struct map note_name_numbers; /* annotation id → index in note_names */
    VEC(struct gpu_note) notes;
    struct map note_ids;     /* annotation id → its number */
    struct map note_numbers; /* query | annotation number << 16 → index in notes */
};

struct gpu {
    struct spool *spool;
    VEC(struct gpu_context *) contexts;
    uint32_t current[256]; /* wire number → 1 + index of its context; 0: none */
    uint64_t parents;      /* zones with children */
    uint64_t deep; /* zones of this part deeper than ZONE_DEPTH_MAX, stored as siblings there */
    struct map location_counts; /* location number as uint16_t → zones with both GPU times */
};

void gpu_init(struct gpu *g, struct spool *spool);
void gpu_release(struct gpu *g);

/*
 * Adds a context under a wire number. A repeated announcement, which an on-demand client can send,
 * changes nothing; another one takes the number over. NULL when memory is short.
 */
struct gpu_context *gpu_announce(struct gpu *g, uint8_t number, const struct gpu_context *announced,
                                 struct err *e);

/* The context of a wire number, or NULL. */
struct gpu_context *gpu_context_at(const struct gpu *g, uint8_t number);

int gpu_zone_begin(struct gpu *g, struct gpu_context *c, const struct gpu_zone *zone,
                   struct err *e);

/* *found: false when the thread has no open zone. */
int gpu_zone_end(struct gpu *g, struct gpu_context *c, uint16_t thread, uint16_t query,
                 int64_t time, bool *found, struct err *e);

/* Sets the GPU time of a query in ns: the start of its zone, or else its end. */
int gpu_query_time(struct gpu *g, struct gpu_context *c, uint16_t query, int64_t time, bool *found,
                   struct err *e);

/* Names a kind of annotation; a later name replaces an earlier one. */
int gpu_name_note(struct gpu_context *c, int64_t id, uint32_t name, struct err *e);
int gpu_set_note(struct gpu_context *c, uint16_t query, int64_t id, double value, struct err *e);

/*
 * For trace/ingest/store_snapshot.h: the index of a thread in the context's list; the zone that
 * waits for a query.
 */
int gpu_restore_thread(struct gpu *g, struct gpu_context *c, uint16_t number, uint32_t *index,
                       struct err *e);
int gpu_restore_query(struct gpu_context *c, uint16_t query, uint32_t pending, struct err *e);

/* Writes the known data of open zones, so that the columns are complete. */
int gpu_settle(struct gpu *g, struct err *e);

/*
 * Begins a new part of a capture: drops zones and annotation values, keeps contexts and names.
 * Zones that are open on the CPU or wait for GPU times begin again at time 0.
 */
int gpu_carry(struct gpu *g, struct err *e);
