#pragma once

/*
 * What changed between two groups of runs, against the noise between runs (noise.h). A row is a
 * function of a pool: its lines are added up, since they move with every edit. Functions match by
 * name without suffixes of compilers, and by name of file without folders. Code without a name
 * matches by image. The peak of a row is the sum of its lines' peaks.
 */

#include <stdbool.h>
#include <stddef.h>

#include "analysis/questions/budget_summary.h"
#include "analysis/diff/diff.h"
#include "analysis/runs/noise.h"
#include "analysis/runs/run_figures.h"
#include "base/err.h"
#include "base/pattern.h"
#include "base/vec.h"

struct runs_diff_options {
    enum diff_metric metric;
    struct noise_options noise;
    const struct pattern *mute; /* functions and files that are not tested; NULL: none */
    struct budget_list budgets; /* tested by themselves */
};

struct runs_pool {
    struct view name;
    struct noise_row totals[DIFF_POOL_FIGURES]; /* as diff_pool_figures */
};

struct runs_row {
    struct view pool, function, file, image;
    bool no_callstack;
    bool there[2];       /* a run of the side has it */
    enum diff_kind kind; /* DIFF_SAME: within the noise */
    struct noise_row noise;
};

struct runs_diff {
    struct runs_diff_options options;
    const struct run_figures *runs; /* the base's first */
    struct noise noise;             /* of totals and rows together */
    VEC(struct runs_pool) pools;
    VEC(struct runs_row) rows; /* by kind, then the largest change first */
    uint64_t count[DIFF_KINDS];
    uint64_t tested, unstable, muted; /* figures; rows */
    struct budget_checks checks;      /* of the budgets */
};

/* A row's figure is of bytes. */
static inline bool runs_is_bytes(const struct runs_diff *d)
{
    return d->options.metric != DIFF_COUNT;
}

/*
 * `d` need not be initialised; the runs must outlive it, `count` of each side, of which the base's
 * may be 0 (noise.h). ERR_CHECK if a run has no memory data.
 */
int runs_diff_build(struct runs_diff *d, const struct run_figures *runs, const size_t count[2],
                    const struct runs_diff_options *options, struct err *e);
void runs_diff_release(struct runs_diff *d);
