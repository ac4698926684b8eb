#pragma once

/*
 * A trace of figures only: its steps are counted as they come, and no column has them. The second
 * feed of analysis/figures/stream_figures.h: the ingest's steps are in order already, so no free
 * waits. The figures are stored behind the trace (trace/file/appendix.h), and a loaded trace has
 * them. Its fact `figures` says so also where a tool dropped them.
 *
 * As bytes (figure_bytes.h), compressed with zstd, all numbers LEB128 but hashes, which have eight
 * bytes:
 *
 *     pools, and for each: key, low, high, disorder, first time, last time, its figures in the
 *     order of struct pool_figures, call stacks, groups; for each call stack its distance from the
 *     one before, its struct counter; for each group of several call stacks its group_hash and
 *     its group_peak (stream_figures.h); threads, and for each its id, its struct counter; parts,
 *     and for each its length and bytes
 *
 * Groups are those of the built-in rules for sites, with wrappers found by data and by names alone:
 * by site, function and type, and the whole pool.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/view.h"
#include "trace/store/memory.h"

struct accounting;
struct selection;
struct stream_figures;
struct trace;

#define FIGURES_FACT "figures"
#define FIGURES_ONLY "only"

/* At most so many bytes before compression: what a reader allocates for them. */
#define FIGURES_BYTES_MAX ((uint64_t)256 << 20)

/* The store keeps so many call stacks apart; the rest is one, named "(other)" (callstacks.h). */
#define FIGURES_CALLSTACKS ((uint32_t)1 << 17)

/*
 * What else is counted of a pool: a consumer of its steps with its own bytes. The number of a part
 * is its index in the table of them (analysis/questions/figure_parts.h).
 */
struct figures_part {
    void *(*begin)(void); /* of a pool; NULL: memory is short */
    /* In order of arrival. `pool` is 0, times are 0 or later, frees have `temporary` set. */
    int (*take)(void *state, const struct memory_op *op, struct err *e);
    /* Appends what was counted so far. `pool` has the live blocks. -1 with `e`. */
    int (*put)(const void *state, const struct pool *pool, struct buf *out, struct err *e);
    void (*release)(void *state);
};

#define FIGURES_PARTS_MAX 8u

/*
 * Begins it, before the first step of a trace that was just initialised, which owns the figures.
 * The table of parts must outlive the trace.
 */
int figures_only_begin(struct trace *t, const struct figures_part *const *parts, size_t n,
                       struct err *e);

/* For a question: ERR_CHECK unless the figures are there, and of all pools apart. */
int figures_only_pools(struct trace *t, struct err *e);

/*
 * The bytes of a part of a pool, valid until the next step; after figures_only_pools. Empty: the
 * pool has no step. ERR_CHECK if the trace does not have the part.
 */
int figures_only_part(struct trace *t, uint32_t pool, unsigned part, struct view *bytes,
                      struct err *e);

/* Decodes the figures that came with such a trace, once, and fills in its pools. */
int figures_only_load(struct trace *t, struct err *e);

/*
 * The figures of such a trace. ERR_CHECK where they are not there, or pools share a name, so that
 * the figures of both together are not known.
 */
int figures_only_find(struct trace *t, struct stream_figures **f, struct err *e);

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
