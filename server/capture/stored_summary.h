#pragma once

/*
 * The figures of a summary, stored after its trace (trace/file/appendix.h), so that a report need
 * not read the memory events. They are stored where a save makes a summary anyway, and used when a
 * report needs nothing else. Looks at the pages of the process are stored beside them.
 */

#include <stdbool.h>

#include "analysis/figures/stored_figures.h"
#include "analysis/figures/stream_figures.h"
#include "analysis/figures/summary.h"
#include "analysis/names/skiplist.h"
#include "trace/save/save_file.h"
#include "trace/store/store.h"

/*
 * Adds the facts that are found when a trace is saved: summary_write_facts, resident_note and
 * near_limit_note. What grew near a limit may be missing when memory is short, which is printed.
 */
int saved_facts_write(struct trace *t, struct err *e);

/* With fewer events counting takes no noticeable time. */
#define STORED_SUMMARY_EVENTS 200000u

/*
 * A summary by site, made while its trace is saved: the events are counted as they pass to the
 * file. Those that cannot be counted so are swept when the trace is complete.
 */
struct saved_summary {
    struct trace *trace;
    const struct save_options *options; /* options of the save */
    const struct skiplist *skip;        /* of the summary; NULL: the built-in rules */
    bool only_to_store;                 /* make it only if it can be stored */
    bool bounded;                       /* counting takes at most saved_summary_needs bytes */
    bool no_counting;                   /* there is no room for them: sweep instead */
    struct record_sink sink;
    struct stream_figures counted;
    bool counting;
    struct summary summary;
    bool made; /* it was made; release it before the trace */
};

/*
 * Has a save of `t` with `options` make the summary `s`, which need not be initialised. Sets
 * `beside`, `append` and `append_ctx`. `s` and `options` stay where they are until the save ends.
 */
void saved_summary_attach(struct saved_summary *s, struct trace *t, struct save_options *options);

void saved_summary_release(struct saved_summary *s);

/*
 * The `append` of struct save_options, with a struct saved_summary: makes the summary, and stores
 * its figures if that is worthwhile. Never fails: a summary that cannot be made is missing, and one
 * that cannot be stored is computed again later.
 */
int saved_summary_append(void *ctx, int fd, struct err *e);

/* The same without a summary: has the save keep the looks at pages. Nothing to release. */
void saved_pages_attach(struct saved_summary *s, struct trace *t, struct save_options *options);

/* Bytes that counting during a save may take at once. */
uint64_t saved_summary_needs(const struct trace *t);

/*
 * Loads the names and figures stored after the trace at `path` into `t`, which was just
 * initialised with no options. Returns 1 with `f`, which the caller releases; 0 when there are none
 * or their sites do not fit `skip`, and `t` is unchanged; -1 with `e`, and `t` is released.
 */
int stored_summary_load(struct stored_figures *f, struct trace *t, const char *path,
                        const struct skiplist *skip, struct err *e);

/*
 * Loads the names alone, with the totals and times of pools, and leaves the events in the file
 * (trace/load/load_replay.h, which has `in_turn`). Returns 1; 0 when there are none, or events have
 * to be loaded, and `t` is unchanged; -1 with `e`, and `t` is released.
 */
int stored_names_load(struct trace *t, const char *path, bool in_turn, struct err *e);

/*
 * Loads the figures alone, for the trace `t` that was loaded from `path` with its events. Returns
 * whether there are figures that fit its sites; the caller releases them.
 */
bool stored_summary_figures(struct stored_figures *f, const struct trace *t, const char *path);

/* Their size in the file, names included; 0: there are none that fit. */
uint64_t stored_summary_bytes(const struct trace *t, const char *path);

/*
 * Keeps what `report --resident` needs in a rewritten trace: copies it from behind the trace at
 * `input` to behind the one in `fd`. Prints that it is lost where that fails, or where the rewrite
 * cannot have it: `fits` is false. The same for the figures of a trace of figures only, if
 * `figures`: -1 with `e` where they would be lost.
 */
int stored_pages_keep(const char *input, int fd, bool fits, bool figures, struct err *e);
