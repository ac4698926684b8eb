#pragma once

/* Turns a finished recording into a trace with names, a file and a report. */

#include <stdbool.h>

#include "base/err.h"
#include "base/vec.h"
#include "naming/resolver.h"
#include "report/report.h"
#include "run/run_options.h"
#include "server/capture/output_folder.h"
#include "trace/store/store.h"

struct run_traces {
    const struct run_options *options;
    struct resolver resolver;
    bool resolver_runs;
    bool exceeded;    /* some --fail-if was true */
    uint64_t checked; /* children that each --fail-if was checked of */
    uint64_t matched; /* bit i, likewise: number i was checked of a child with all it names */
    uint64_t broken;  /* bit i: --fail-if number i was true of one; the last bit: or a later one */
    bool idle;        /* the root process called none of the functions that are recorded */
    uint64_t uncovered; /* children that --fail-if does not cover */
    bool replaced;      /* nor the program that the root process executed, or ran before */
    struct output_folder *folder; /* of the output; NULL: unknown */
    char *elsewhere; /* the last trace, if it was saved elsewhere since that folder was removed */
    VEC(struct report_process) processes; /* of saved traces; owns its strings */
};

/*
 * Starts the helper that resolves names, unless it is not wanted. Call it before there are threads.
 */
void run_traces_init(struct run_traces *r, const struct run_options *o);
void run_traces_release(struct run_traces *r);

/* Resolves names while the trace is recorded, for figures_only_name_by. Prints a failure. */
void run_trace_find_names(void *traces, struct trace *t);

/*
 * Resolves names and saves the trace, without budgets and report. `version`, here and below: of the
 * file unless an option names one; 0: the newest.
 */
int run_trace_save(struct run_traces *r, struct trace *t, uint32_t version, const char *path,
                   struct err *e);

/*
 * Resolves names, saves the trace of `count` children and checks the budgets, unless they apply to
 * the root process only. A trace without memory events is not checked. Failures to resolve names
 * are printed and are no errors.
 */
int run_trace_save_children(struct run_traces *r, struct trace *t, uint32_t version, uint64_t count,
                            const char *path, struct err *e);

/*
 * Saves the trace that the report is about, checks the budgets, writes the report. Of an idle
 * process the outcome of a budget is that of its children, if some were checked.
 */
int run_trace_finish(struct run_traces *r, struct trace *t, uint32_t version, const char *path,
                     bool replace, struct err *e);

/*
 * There is no trace for the report: prints why, checks what budgets cover, and writes a JSON or CSV
 * report without sites, for programs that read it.
 */
int run_trace_finish_nothing(struct run_traces *r, const char *why, struct err *e);

/* "x.tracy" → "x.WHAT.tracy"; the caller frees it. */
char *run_trace_name(const char *output, const char *what);
