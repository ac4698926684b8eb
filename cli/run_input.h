#pragma once

/* The figures of runs, from traces, from files of figures, and from folders of either. */

#include <stddef.h>

#include "analysis/names/skiplist.h"
#include "analysis/runs/run_figures.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/vec.h"

struct run_inputs {
    VEC(struct run_figures) list;
    size_t unread; /* files of folders that cannot be read: each was named on standard error */
    struct buf unread_names; /* of these, with ", " between them */
};

struct run_input_options {
    const struct selection_options *only; /* NULL: all. Figures without a trace cannot be chosen */
    const struct skiplist
        *skip; /* taken with names_alone: runs without a trace are compared, too */
    bool all_leaks;
    bool quiet;             /* without a progress line */
    size_t resident_budget; /* of each trace, see struct trace_options */
};

/* The largest file of figures that is read, in bytes. */
#define RUN_FIGURES_MAX ((size_t)32 << 20)

/*
 * Adds the run at `path`, or if that is a folder, all *.json and *.tracy in it in order of their
 * names. A file of a folder that cannot be read is named and counted, and the others are taken.
 * ERR_INPUT for a folder without a run.
 */
int run_inputs_add(struct run_inputs *r, const char *path, const struct run_input_options *options,
                   struct err *e);

/* ERR_INPUT if files of folders could not be read. */
int run_inputs_check(const struct run_inputs *r, struct err *e);
void run_inputs_release(struct run_inputs *r);
