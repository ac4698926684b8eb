#ifndef TIDEMARK_ANALYSIS_QUESTIONS_RELATED_H
#define TIDEMARK_ANALYSIS_QUESTIONS_RELATED_H

/*
 * Which plots and messages moved with memory.
 *
 * Plots: the time is cut into steps of equal length. Of each plot the last value by the end of a
 * step is taken, of each pool its use there; how these change from step to step is correlated
 * (correlation.h), from the step on in which the plot has a value.
 *
 * Messages: the time is cut into finer cells, and the rise after a cell is that of use from its
 * begin until a window later. A message counts by the share of all cells whose rise is at least as
 * high as that of its cell. Those of one text are combined by Fisher's method; one that follows
 * another of its text within the window is left out, for it would see the same rise.
 *
 * The probabilities of plots together, and those of messages, are corrected for their number by
 * Holm's method. Below RELATED_BELOW something counts as related.
 *
 * Memory follows pools times cells, plots and texts times pools; beyond RELATED_PAIRS_MAX of these
 * the question is refused.
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
#define RELATED_STEEP 0.05 /* a cell is steep when so few rise as much */
#define RELATED_MOVES 5u   /* steps in which a plot and a pool must have changed to be compared */

struct related_plot {
    struct view name;
    uint32_t pool;   /* index in selection.pools */
    uint64_t points; /* within the time */
    uint32_t n;      /* steps that were compared */
    uint32_t moved;  /* of them: with a change of the plot */
    double pearson, spearman;
    double p;        /* -1: it moved too seldom to tell, or the pool did */
    double adjusted; /* the same */
};

struct related_message {
    struct view text;
    uint32_t pool;
    uint64_t count;  /* within the time */
    uint32_t n;      /* of them: with a window of their own */
    uint32_t steep;  /* of these: at a steep rise */
    double expected; /* how many would be by chance */
    double rise;     /* mean of the bytes after one of them */
    double usual;    /* and after any cell */
    double p, adjusted;
};

struct related {
    int64_t begin, end;             /* ns; the end is not part of it */
    uint32_t steps;                 /* of plots */
    uint32_t cells;                 /* of messages */
    int64_t window;                 /* ns: a whole number of cells */
    VEC(struct related_plot) plots; /* surest first; those of which nothing can be told last */
    VEC(struct related_message) messages;
};

struct related_options {
    int64_t window; /* ns, 0: a two-hundredth of the time */
};

static inline bool related_is_one(double adjusted)
{
    return adjusted >= 0 && adjusted < RELATED_BELOW;
}

/*
 * ERR_USAGE when there are too many pools, plots or texts. Names are views of the trace. `r` need
 * not be initialised.
 */
int related_build(struct related *r, struct selection *s, struct related_input *input,
                  const struct related_options *options, struct err *e);
void related_release(struct related *r);

#endif
