#pragma once

/*
 * Plots and messages that correlate with memory use.
 *
 * Plots: the time is cut into steps of equal length. The last value of each plot in a step, and
 * each pool's use at its end, are taken. Their changes from step to step are correlated
 * (correlation.h), from the first step with a value of the plot on.
 *
 * Messages: the time is cut into smaller cells. The rise after a cell is the change of use from its
 * start to the end of a window. A message is rated by the share of all cells with at least the rise
 * of its cell. Messages of one text are combined by Fisher's method; a message within the window of
 * another one of its text is left out, since it would see the same rise.
 *
 * The probabilities of plots, and separately those of messages, are corrected for their number by
 * Holm's method. Below RELATED_BELOW, something counts as related.
 *
 * Memory grows with pools times cells, plots and texts times pools; more than RELATED_PAIRS_MAX of
 * these are rejected.
 */

#include <stdbool.h>
#include <stdint.h>

#include "analysis/figures/selection.h"
#include "analysis/questions/related_input.h"
#include "base/err.h"
#include "base/vec.h"
#include "base/view.h"

#define RELATED_STEPS 512u
#define RELATED_CELLS 16384u
#define RELATED_POOLS_MAX 64u
#define RELATED_PAIRS_MAX 65536u
#define RELATED_BELOW 0.01
#define RELATED_STEEP 0.05 /* a cell is steep if only this share rises as much */
#define RELATED_MOVES 5u   /* minimum number of steps with a change of a plot and a pool */

struct related_plot {
    struct view name;
    uint32_t pool;   /* index in selection.pools */
    uint64_t points; /* within the time */
    uint32_t n;      /* compared steps */
    uint32_t moved;  /* of them: with a change of the plot */
    double pearson, spearman;
    double p;        /* -1: the plot or the pool changed too rarely */
    double adjusted; /* the same */
};

struct related_message {
    struct view text;
    uint32_t pool;
    uint64_t count;  /* within the time */
    uint32_t n;      /* of them: with a separate window */
    uint32_t steep;  /* of these: at a steep rise */
    double expected; /* the number expected by chance */
    double rise;     /* mean rise in bytes after one of them */
    double usual;    /* and after any cell */
    double p, adjusted;
};

struct related {
    int64_t begin, end;             /* ns; the end is exclusive */
    uint32_t steps;                 /* of plots */
    uint32_t cells;                 /* of messages */
    int64_t window;                 /* ns: a whole number of cells */
    VEC(struct related_plot) plots; /* lowest probability first; those without one last */
    VEC(struct related_message) messages;
};

struct related_options {
    int64_t window; /* ns; 0: a two-hundredth of the time */
};

static inline bool related_is_one(double adjusted)
{
    return adjusted >= 0 && adjusted < RELATED_BELOW;
}

/*
 * ERR_USAGE if there are too many pools, plots or texts. Names are views of the trace. `r` need not
 * be initialised.
 */
int related_build(struct related *r, struct selection *s, struct related_input *input,
                  const struct related_options *options, struct err *e);
void related_release(struct related *r);
