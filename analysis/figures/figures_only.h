#ifndef TIDEMARK_ANALYSIS_FIGURES_FIGURES_ONLY_H
#define TIDEMARK_ANALYSIS_FIGURES_FIGURES_ONLY_H

/*
 * A trace of figures only: its steps are counted as they come, and no column has them. The second
 * feed of analysis/figures/stream_figures.h: the ingest's steps are in order already, so no free
 * waits. The figures are stored behind the trace (trace/file/appendix.h), and a loaded trace has
 * them. Its fact `figures` says so also where a tool dropped them.
 *
 * As bytes (figure_bytes.h), all numbers LEB128 but hashes, which have eight bytes:
 *
 *     pools, and for each: key, low, high, disorder, first time, last time, its figures in the
 *     order of struct pool_figures, call stacks, groups; for each call stack its distance from the
 *     one before, its struct counter; for each group of several call stacks its group_hash and
 *     its group_peak (stream_figures.h); threads, and for each its id, its struct counter
 *
 * Groups are those of the built-in rules for sites, with wrappers found by data and by names alone:
 * by site, function and type, and the whole pool.
 */

#include <stdint.h>

#include "base/err.h"

struct accounting;
struct selection;
struct stream_figures;
struct trace;

#define FIGURES_FACT "figures"
#define FIGURES_ONLY "only"

/* Begins it, before the first step of a trace that was just initialised, which owns the figures. */
int figures_only_begin(struct trace *t, struct err *e);

/* Decodes the figures that came with such a trace, once, and fills in its pools. */
int figures_only_load(struct trace *t, struct err *e);

/*
 * The figures of such a trace. ERR_CHECK where they are not there, or pools share a name, so that
 * the figures of both together are not known.
 */
int figures_only_find(struct trace *t, struct stream_figures **f, struct err *e);

/*
 * Shows the figures by allocating thread and the selection's pools in `into`, which must be newly
 * initialised. After figures_only_find; the trace must outlive `into`.
 */
int figures_only_threads(struct trace *t, const struct selection *s, struct accounting *into,
                         struct err *e);

/*
 * The log of steps is bounded: when it is long, the peaks so far are kept, by sites as frames are
 * named by then. `name` names frames for that; without it, names are those that came by themselves.
 * Does nothing for other traces.
 */
void figures_only_name_by(struct trace *t, void (*name)(void *ctx, struct trace *t), void *ctx);

/* For tests: so many steps of a pool are long. */
void figures_only_fold_after(struct trace *t, uint64_t steps);

/* The fact, when the trace is saved. Other traces get none. */
int figures_only_note(struct trace *t, struct err *e);

#endif
