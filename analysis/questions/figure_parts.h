#pragma once

/*
 * What questions need of a trace of figures only (analysis/figures/figures_only.h) beside its
 * counters: each part counts steps as they come, and has its own bytes.
 */

#include <stdint.h>

#include "base/err.h"
#include "trace/store/store.h"

/* The numbers are stored in files: add new ones at the end. */
enum figure_part { PART_CURVE, PART_SIZES, PART_STACKS, PART_PATTERNS, PART_COUNT };

/* figures_only_begin, with all parts. */
int figure_parts_begin(struct trace *t, struct err *e);

#define FIGURE_PLOT_POINTS 128u

/*
 * figures_only_note, and a plot of each pool with at most FIGURE_PLOT_POINTS highest uses, for
 * programs that read no figures. When the trace is saved; other traces get nothing.
 */
int figure_parts_note(struct trace *t, struct err *e);
