#pragma once

/* Shared by the files of this folder. */

#include "run/recording/chunk_run.h"
#include "run/recording/recording.h"
#include "run/recording/recording_clock.h"
#include "run/recording/recording_nodes.h"

#define BATCH 512u

/* Made-up client pointers for names; the kinds do not overlap. */
#define POOL_KEY(n) ((n) ? ((uint64_t)1 << 32) + (uint64_t)(n)*16 : 0)
#define PLOT_KEY(n) (((uint64_t)1 << 40) + (uint64_t)(n)*16)
#define FRAME_KEY(n) (((uint64_t)1 << 41) + (uint64_t)(n)*16)

/* A block during its realloc: freed, unless the thread records that it failed. */
struct held {
    uint64_t who; /* thread, and the level of its hooks */
    uint64_t pool, ptr, thread;
    uint32_t callstack;
};

/* A request from outside to pause or resume the recording. */
struct pause {
    uint64_t stamp;
    bool paused;
};

struct recording {
    struct chunks file;
    struct rec_header header; /* as read at the beginning */
    struct recording_target *target;
    struct recording_clock clock;
    int64_t offset; /* ns from CLOCK_MONOTONIC to the trace's clock */
    struct nodes nodes;
    struct process_images images;
    /* Chunks of events: those found, and those being merged. */
    VEC(struct run *) waiting; /* a heap by base stamp */
    VEC(struct run *) merging; /* a heap by stamp */
    VEC(struct run *) parked;  /* read up to their committed length */
    uint64_t below;            /* the order of smaller stamps is final */
    uint64_t limit;            /* events with this stamp or a larger one are not wanted */
    bool dead;                 /* scanned since the process ended */
    bool gives_back;           /* the process will need the space of read chunks */
    VEC(struct chunk) read;    /* those that it did not need yet */
    double sample;             /* mean bytes between samples; 0: no sampling */
    struct memory_event events[BATCH];
    size_t n;
    VEC(struct held) held;
    VEC(struct recording_start) starts;
    size_t start_paths; /* bytes of their paths */
    uint64_t starts_dropped;
    VEC(struct pause) pauses; /* in order; those not yet added to the trace */
    struct map thread_names;  /* tid → string number */
    struct map names;         /* keys already added to the trace */
    struct map sources;       /* number → frame id */
    struct map pools;         /* keys */
    struct recording_counts counts;
};

/* ---- recording_events.c */

/* Passes on buffered events. */
int recording_flush(struct recording *r, struct err *e);

/* A stamp in the other client's time, as its decoder computes it (protocol/decoder.c). */
static inline int64_t recording_tick_time(const struct recording_target *t, uint64_t stamp)
{
    double ns = (double)(int64_t)(stamp - t->zero_stamp) * t->tick_ns;
    return ns < -1e18 ? (int64_t)-1e18 : ns > 1e18 ? (int64_t)1e18 : (int64_t)ns;
}

/* The trace's time of a stamp: later than all before. */
static inline int64_t recording_time(struct recording *r, uint64_t stamp)
{
    int64_t t = __builtin_expect(r->target->tick_ns > 0, 0)
                    ? recording_tick_time(r->target, stamp)
                    : recording_clock_ns(&r->clock, stamp) + r->offset;
    if (t <= r->target->last)
        t = r->target->last + 1;
    r->target->last = t;
    return t;
}

/* The call stack of a node; 0 when there is none. */
int recording_callstack(struct recording *r, uint64_t node, uint32_t *id, struct err *e);

/* ---- sources.c */

/* A source is described; the first description of a number counts. */
int recording_add_source(struct recording *r, uint64_t number, struct view function,
                         struct view file, uint32_t line, struct err *e);

/* The frame id of a source; one without a description has no name. */
int recording_source(struct recording *r, uint64_t number, uint64_t *frame, struct err *e);

/* ---- rare.c */

/* Adds a message that the recording was paused or resumed. */
int recording_say_pause(struct recording *r, uint64_t stamp, uint32_t thread, bool paused,
                        struct err *e);

/* Reads a record of the kinds with a length. run->pos is after the stamp. */
int recording_rare(struct recording *r, struct run *run, struct err *e);
