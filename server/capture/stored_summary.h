#ifndef TIDEMARK_SERVER_CAPTURE_STORED_SUMMARY_H
#define TIDEMARK_SERVER_CAPTURE_STORED_SUMMARY_H

/*
 * The figures of a summary behind the trace that they are of (trace/file/appendix.h), for a report
 * that need not go through the memory events: stored where a summary is made anyway when a trace is
 * saved, and used when nothing else is asked. The content:
 *
 *     u64 n, n bytes of figures (analysis/figures/stored_figures.h),
 *     a whole .tracy file, of the trace's names without its events (trace_save_names)
 */

#include <stdbool.h>

#include "analysis/figures/stored_figures.h"
#include "analysis/figures/summary.h"
#include "analysis/names/skiplist.h"
#include "trace/save/save_file.h"
#include "trace/store/store.h"

/* Fewer are counted in no time. */
#define STORED_SUMMARY_EVENTS 200000u

/* A summary by site that is made while its trace is saved. Zero-initialise. */
struct saved_summary {
    struct trace *trace;
    const struct save_options *options; /* by which it is saved */
    bool only_to_store;                 /* else nobody wants it */
    struct summary summary;
    bool made; /* it is there, to be released before the trace */
};

void saved_summary_release(struct saved_summary *s);

/*
 * The `append` of struct save_options, with a struct saved_summary: makes the summary, and stores
 * its figures where that is worth while. Never fails: what cannot be made is not there, and what
 * cannot be stored is counted again.
 */
int saved_summary_append(void *ctx, int fd, struct err *e);

/*
 * Loads the names and figures behind the trace at `path` into `t`, which was just initialised, with
 * `resident_budget` if that is not 0. 1, with `f` to be released; or 0 when there are none, or they
 * do not fit sites that are told by `skip`: `t` is as before. -1 with `e`: `t` is gone.
 */
int stored_summary_load(struct stored_figures *f, struct trace *t, const char *path,
                        size_t resident_budget, const struct skiplist *skip, struct err *e);

/*
 * The figures alone, for the trace `t` that was loaded from `path` with its events: whether there
 * are some, to be released, that fit its sites.
 */
bool stored_summary_figures(struct stored_figures *f, const struct trace *t, const char *path);

/* What those take of the file, names included; 0: there are none that fit. */
uint64_t stored_summary_bytes(const struct trace *t, const char *path);

#endif
