#ifndef TIDEMARK_RUN_RUN_TRACE_H
#define TIDEMARK_RUN_RUN_TRACE_H

/* What `tidemark run` makes of a finished recording: names, the trace on disk, the report. */

#include <stdbool.h>

#include "base/err.h"
#include "base/vec.h"
#include "naming/resolver.h"
#include "report/report.h"
#include "run/run_options.h"
#include "trace/store/store.h"

struct run_traces {
    const struct run_options *options;
    struct resolver resolver;
    bool resolver_runs;
    bool exceeded;      /* some --fail-if held */
    uint64_t uncovered; /* children that --fail-if says nothing of */
    bool replaced;      /* nor of the program that the program's own process became, or was */
    VEC(struct report_process) processes; /* of traces that were saved; strings are owned */
};

/* Starts what looks for names, unless it is not wanted: to be called before there are threads. */
void run_traces_init(struct run_traces *r, const struct run_options *o);
void run_traces_release(struct run_traces *r);

/* Finds names and saves the trace: for one that no budget and no report is of. */
int run_trace_save(struct run_traces *r, struct trace *t, const char *path, struct err *e);

/*
 * Finds names, saves the trace of `count` children and checks the budgets, unless they are for the
 * program's own process alone. A trace without memory events is not checked. Failures to find
 * names are printed and are no errors.
 */
int run_trace_save_children(struct run_traces *r, struct trace *t, uint64_t count, const char *path,
                            struct err *e);

/* Says that budgets do not cover all processes, if so and it was not asked for; they fail then. */
void run_trace_check_cover(struct run_traces *r, struct summary *s);

/* Prints the table of processes on standard error, if there is one. */
void run_trace_list_processes(const struct run_traces *r);

/* Does all for the trace that a report is wanted of: saves it, checks the budgets, reports. */
int run_trace_finish(struct run_traces *r, struct trace *t, const char *path, bool replace,
                     struct err *e);

#endif
