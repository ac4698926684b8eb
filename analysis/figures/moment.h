#pragma once

/*
 * The zone of a thread and the current frame, at times that only increase: both lists are read
 * once. Memory grows with zones that are open at once and threads that have some. The trace must
 * have been loaded with zones and frames (trace/load/load.h).
 */

#include <stdint.h>

#include "analysis/figures/zone_calls.h"
#include "base/err.h"
#include "base/map.h"
#include "base/vec.h"
#include "base/view.h"
#include "trace/store/store.h"

struct moment_thread;

#define MOMENT_NO_ZONE 0u /* the first label */

struct moments {
    const struct trace *trace;
    VEC(struct moment_thread *) threads; /* NULL: not queried yet */
    VEC(struct view) labels;             /* names of zones; all different */
    struct map label_numbers;
    uint32_t *of_location; /* by source location + 32,768: label + 1; 0: not known yet */
    struct column_reader marks;
    const struct frame_mark *mark; /* the next one */
    size_t marks_left;
    uint64_t frames;          /* frames of the base set that have begun */
    struct zone_calls *calls; /* receives the calls of zones; may be NULL */
};

int moments_init(struct moments *m, struct trace *t, struct err *e);
void moments_release(struct moments *m);

/*
 * The label of the innermost zone that is open on the thread at `time`, its end included. Times of
 * one thread must not decrease.
 */
int moments_zone(struct moments *m, uint16_t thread, int64_t time, uint32_t *label, struct err *e);

/* Counts an allocation in the zone that moments_zone last found on that thread; for `calls`. */
int moments_allocated(struct moments *m, uint16_t thread, uint32_t pool, uint64_t size,
                      struct err *e);

/* At the end of the history: finishes all zones; for `calls`. */
int moments_finish_zones(struct moments *m, struct err *e);

/*
 * The number of frames of the base set that have begun by `time`: the frame's number + 1, 0 before
 * the first. Times must not decrease.
 */
int moments_frame(struct moments *m, int64_t time, uint64_t *begun, struct err *e);
