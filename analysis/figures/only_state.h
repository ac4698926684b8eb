#pragma once

/* Shared by the files of analysis/figures/figures_only.h. */

#include <stdbool.h>
#include <stdint.h>

#include "analysis/figures/accounting.h"
#include "analysis/figures/figures_only.h"
#include "analysis/figures/stream_figures.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/map.h"
#include "base/spool.h"
#include "base/vec.h"

/* The ways in which call stacks are divided into groups. */
enum { DIVISIONS = 7 };

/* The groups when the log was begun anew. */
struct past {
    uint32_t *groups; /* by call stack; NULL: the log has all steps */
    size_t count;
    struct map peaks; /* see struct stream_past */
};

/* What counts a pool; of a loaded trace, only the peaks are used. */
struct feed {
    struct stream_counting counting;
    struct spool spool; /* of the log */
    bool has_spool;
    int64_t now; /* ns; of the newest step, or of a later one before it */
    struct map peaks;
    struct past past[DIVISIONS];
    void *states[FIGURES_PARTS_MAX];     /* NULL: none of this part */
    struct buf bytes[FIGURES_PARTS_MAX]; /* as decoded, or as of the newest figures_only_part */
};

struct only {
    struct trace *trace;
    const struct figures_part *const *parts;
    size_t part_count;
    struct stream_figures figures;
    VEC(struct feed *) feeds; /* by number of pool; NULL: without steps */
    bool sealed;              /* the peaks of groups are known, and no step came since */
    uint64_t fold_steps;      /* FOLD_STEPS, but for tests */
    void (*name)(void *ctx, struct trace *t); /* see figures_only_name_by */
    void *name_ctx;
};

/* Of a trace, which owns it: see memory.only. NULL with `e`. */
struct only *only_new(struct trace *t, struct err *e);
void only_release(void *only);

/* Drops all figures, to count anew after only_start. */
void only_forget(struct only *o);
void only_start(struct only *o);
void only_release_log(struct feed *f);

/* The pool's, made if it is the first step. NULL with `e`. */
struct feed *only_feed(struct only *o, uint32_t pool, struct err *e);

/* Appends the figures, whose peaks are known. */
int only_encode(const struct only *o, struct buf *out, struct err *e);

/* Takes them into a new struct only. ERR_INPUT. */
int only_decode(struct only *o, struct view bytes, struct err *e);
