#ifndef TIDEMARK_ANALYSIS_FIGURES_MOMENT_H
#define TIDEMARK_ANALYSIS_FIGURES_MOMENT_H

/*
 * Which zone a thread was in, and which frame it was, at times that only go forward: both lists are
 * read once. Memory follows zones that are open at once and threads that have some. The trace must
 * have been loaded with zones and frames (trace/load/load.h).
 */

#include <stdbool.h>
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
    VEC(struct moment_thread *) threads; /* NULL: not asked for yet */
    VEC(struct view) labels;             /* names of zones; different ones have different names */
    struct map label_numbers;
    uint32_t *of_location; /* by source location + 32,768: label + 1, 0 not known yet */
    struct column_reader marks;
    const struct frame_mark *mark; /* the next one */
    size_t marks_left;
    uint64_t frames;          /* of the base set that have begun */
    struct zone_calls *calls; /* is told what zones do; NULL: nobody */
};

int moments_init(struct moments *m, struct trace *t, struct err *e);
void moments_release(struct moments *m);

/*
 * The label of the innermost zone that is open on the thread at `time`, its end included. Times of
 * one thread must not go back.
 */
int moments_zone(struct moments *m, uint16_t thread, int64_t time, uint32_t *label, struct err *e);

/* The zone that moments_zone just found on that thread allocates; for `calls`. */
int moments_allocated(struct moments *m, uint16_t thread, uint32_t pool, uint64_t size,
                      struct err *e);

/* The history is over: walks the rest of all zones; for `calls`. */
int moments_finish_zones(struct moments *m, struct err *e);

/*
 * How many frames of the base set have begun by `time`: the frame's number + 1, 0 before the first.
 * Times must not go back.
 */
int moments_frame(struct moments *m, int64_t time, uint64_t *begun, struct err *e);

#endif
