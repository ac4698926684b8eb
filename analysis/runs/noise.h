#pragma once

/*
 * Which of many figures changed between two groups of runs by more than the noise between runs.
 *
 * The test is a permutation test of the largest statistic (Westfall and Young 1993, single step).
 * If nothing changed, every division of the runs into groups of these sizes is equally likely. So
 * each division is tried, and for each the largest statistic of all figures is kept. A figure's
 * corrected p is the share of divisions whose largest statistic is not below its own. The
 * probability that any figure is reported by chance is at most `level`, whatever the distribution
 * of the figures and however they depend on each other. The runs must be exchangeable: recorded in
 * the same way, and not one group long after the other on a machine that has changed.
 *
 * The price: with few runs no p is small enough. Of 5 runs against 5 there are 252 divisions, and
 * each has its mirror image: the least p is 2/252 = 0.8 %.
 *
 * The statistic is the difference of the means over (its standard error + a floor). The floor keeps
 * a figure that hardly matters, but happens to divide neatly, from hiding one that matters.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/*
 * Divisions tried. If there are more, so many by chance: at most NOISE_SPLITS, fewer of many
 * figures so that the work stays near NOISE_WORK values read, and never fewer than
 * NOISE_SPLITS_LEAST.
 */
#define NOISE_SPLITS 20000u
#define NOISE_SPLITS_LEAST 1000u
#define NOISE_WORK 1000000000u
#define NOISE_RUNS 200u /* of both groups together, at most */

struct noise_row {
    double floor; /* set by the caller, in the figure's unit */
    bool muted;   /* not tested: set by the caller; noise_test adds options->mute_unstable */
    double median[2], mean[2];
    double spread[2]; /* standard deviation of a run; NAN of a single one */
    double change;    /* of the means */
    double low, high; /* interval of the change, for all figures together; NAN: unknown */
    double p;         /* corrected */
    bool changed;
    bool unstable; /* runs of one group differ by more than options->unstable of the mean */
};

struct noise_options {
    double level;    /* 0.01: the probability of any false alarm */
    double unstable; /* 0.1 */
    bool mute_unstable;
};

struct noise {
    size_t runs[2];
    uint64_t splits; /* tried */
    bool all_splits; /* every one there is */
    double least_p;  /* that these numbers of runs can give; NAN: there is one group */
    bool can_tell;   /* it is not above the level */
    double critical; /* a statistic above it is a change */
};

/* How many runs on each side can establish a change at this level; 0 if NOISE_RUNS cannot. */
size_t noise_runs_needed(double level);

/*
 * Tests `count` rows. `values` has the figures of each row, those of the first group first. If the
 * first group is empty, the rows get median, mean, spread and `unstable` of the second one, NAN for
 * the first one and for the change, and p = 1. ERR_USAGE if there are more than NOISE_RUNS runs, or
 * the second group is empty.
 */
int noise_test(struct noise *n, const size_t runs[2], const double *values, struct noise_row *rows,
               size_t count, const struct noise_options *options, struct err *e);
