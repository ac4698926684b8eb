#pragma once

/*
 * Options of all commands that answer a question about a trace: which allocations it covers, the
 * output's format and destination.
 */

#include <stdbool.h>
#include <stdio.h>

#include "analysis/figures/selection.h"
#include "base/err.h"
#include "cli/options/options.h"
#include "cli/options/resolve_options.h"
#include "report/picture/canvas.h"
#include "report/report.h"

/* What an answer reads of the memory events. */
enum question_steps {
    STEPS_STORED,   /* also their columns */
    STEPS_TOGETHER, /* one sweep */
    STEPS_IN_TURN,  /* one sweep, which may pass one pool after the other */
};

struct question {
    const char *trace;
    const char *output; /* NULL: standard output */
    bool force;
    bool quiet;  /* no progress line */
    bool zones;  /* always load zones and frames */
    bool kernel; /* load the plots of kernel_curve.h */
    enum question_steps steps;
    uint64_t memory; /* the bound on the process, see base/memory_bound.h; 0: none */
    enum report_format format;
    enum picture_format picture; /* instead of the format */
    struct selection_options selection;
    struct resolve_request resolve;
    bool reads_images;         /* even when names are not resolved */
    bool says_heap;            /* the answer says which heap was not recorded */
    struct resolver *resolver; /* during an answer, if it needs one; else NULL */
    /*
     * Loads the trace instead, with the answer's ctx; NULL: loads memory events and what else is
     * needed.
     */
    int (*load)(void *ctx, struct trace *t, struct err *e);
    void (*unload)(void *ctx); /* before the trace is released, also after a failure; or NULL */
};

/* Rows of struct question. */
extern const struct option_row question_selection_rows[];
extern const struct option_row question_between_rows[];
extern const struct option_row question_resolve_rows[]; /* --resolve */
extern const struct option_row question_format_rows[];  /* --format text, json or csv */
extern const struct option_row question_picture_rows[]; /* --format with svg and png, too */
extern const struct option_row question_output_rows[];  /* -o, -f, --quiet, -h */

/* Groups of a command's `TYPE` with a member `question`: all of the above but --format. */
#define QUESTION_GROUPS(TYPE)                                                                      \
    {.rows = question_resolve_rows, .base = offsetof(TYPE, question)},                             \
        {.rows = question_output_rows, .base = offsetof(TYPE, question)},                          \
        QUESTION_SELECTION_GROUP(TYPE),                                                            \
        {.rows = question_between_rows, .base = offsetof(TYPE, question)},                         \
        MEMORY_GROUP(TYPE, question.memory), QUESTION_FILE_GROUPS(TYPE)
#define QUESTION_SELECTION_GROUP(TYPE)                                                             \
    {                                                                                              \
        .rows = question_selection_rows, .base = offsetof(TYPE, question),                         \
        .title = "Which allocations"                                                               \
    }
/* The further options of --resolve, which are in --help of `symbols` only. */
#define QUESTION_FILE_GROUPS(TYPE)                                                                 \
    RESOLVE_GROUP(TYPE, resolve_trace_rows), RESOLVE_GROUP(TYPE, resolve_source_rows),             \
        RESOLVE_GROUP(TYPE, resolve_file_rows), RESOLVE_GROUP(TYPE, resolve_thread_rows)
#define RESOLVE_GROUP(TYPE, ROWS)                                                                  \
    {                                                                                              \
        .rows = (ROWS), .base = offsetof(TYPE, question.resolve.options), .hidden = true           \
    }

/* Rejects a PNG for a terminal. */
bool question_check_picture(const struct question *q, struct err *e);

/* Prints which checks of --fail-if hold, but name what no pool or site matches. */
void question_print_doubts(const struct summary_check *checks, size_t n);

/*
 * Finds the messages of --between in the trace at `path`, and sets the range in the selection `o`.
 * Warns when several ranges match. ERR_USAGE when none does.
 */
int question_find_range(struct selection_options *o, const char *path, struct err *e);

/*
 * Loads the trace with what the selection needs and writes the answer to its destination; a file
 * gets its name when it is complete. Prints errors and returns the exit status. Releases what the
 * options hold.
 */
typedef int question_answer(void *ctx, struct trace *t, FILE *out, struct err *e);
int question_run(struct question *q, question_answer *answer, void *ctx);
