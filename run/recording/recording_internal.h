#ifndef TIDEMARK_RUN_RECORDING_RECORDING_INTERNAL_H
#define TIDEMARK_RUN_RECORDING_RECORDING_INTERNAL_H

/* What the files of this folder share. */

#include "base/run_heap.h"
#include "run/recording/chunk_run.h"
#include "run/recording/recording.h"
#include "run/recording/recording_clock.h"
#include "run/recording/recording_nodes.h"

#define BATCH 512u

/* Client pointers of names, made up: no two kinds share one. */
#define POOL_KEY(n) ((n) ? ((uint64_t)1 << 32) + (uint64_t)(n)*16 : 0)
#define PLOT_KEY(n) (((uint64_t)1 << 40) + (uint64_t)(n)*16)
#define FRAME_KEY(n) (((uint64_t)1 << 41) + (uint64_t)(n)*16)

/* A block whose realloc is under way: freed, unless the thread says that it failed. */
struct held {
    uint64_t who; /* thread, and the level of its hooks */
    uint64_t pool, ptr, thread;
    uint32_t callstack;
};

/* Who records was told from outside to pause, or to go on. */
struct pause {
    uint64_t stamp;
    bool paused;
};

struct recording {
    struct chunks file;
    struct rec_header header; /* as it was at the beginning */
    struct recording_target *target;
    struct recording_clock clock;
    int64_t offset; /* ns from CLOCK_MONOTONIC to the trace's clock */
    struct nodes nodes;
    struct process_images images;
    /* Chunks of events: those that were found, those whose records are being merged. */
    VEC(struct run *) waiting; /* a heap by base stamp */
    VEC(struct run *) merging; /* a heap by stamp */
    VEC(struct run *) parked;  /* read as far as they were written */
    uint64_t below;            /* what has a smaller stamp is in its final order */
    uint64_t limit;            /* what has this stamp or a larger one is not wanted */
    bool dead;                 /* looked at since the process ended */
    bool gives_back;           /* the process needs the space that was read */
    double sample;             /* mean bytes between samples; 0: all are there */
    struct memory_event events[BATCH];
    size_t n;
    VEC(struct held) held;
    VEC(struct recording_start) starts;
    size_t start_paths; /* bytes of their paths */
    uint64_t starts_dropped;
    VEC(struct pause) pauses; /* in order; those that were not told to the trace so far */
    struct map thread_names;  /* tid → string number */
    struct map names;         /* keys that were told */
    struct map pools;         /* keys */
    struct recording_counts counts;
};

/* ---- merge.c */

/* Hands over the events that wait. */
int recording_flush(struct recording *r, struct err *e);

/* The other client's time of a stamp, as its decoder has it (protocol/decoder.c). */
static inline int64_t recording_tick_time(const struct recording_target *t, uint64_t stamp)
{
    double ns = (double)(int64_t)(stamp - t->zero_stamp) * t->tick_ns;
    return ns < -1e18 ? (int64_t)-1e18 : ns > 1e18 ? (int64_t)1e18 : (int64_t)ns;
}

/* The trace's time of a stamp: later than all before it. */
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

/* The call stack of a node, 0 when there is none. */
int recording_callstack(struct recording *r, uint64_t node, uint32_t *id, struct err *e);

/* ---- rare.c */

/* A message of ours at the time of `stamp`, by the thread with this id. */
int recording_say(struct recording *r, uint64_t stamp, uint32_t thread, const char *text,
                  struct err *e);

/* Says that it was paused, or goes on. */
int recording_say_pause(struct recording *r, uint64_t stamp, uint32_t thread, bool paused,
                        struct err *e);

/* Records of the kinds that say their length. run->pos is behind the stamp. */
int recording_rare(struct recording *r, struct run *run, struct err *e);

/* ---- facts.c */
int recording_facts(struct recording *r, struct err *e);

#endif
