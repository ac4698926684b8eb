#ifndef TIDEMARK_CLI_RUN_TRACE_H
#define TIDEMARK_CLI_RUN_TRACE_H

/* What `tidemark run` makes of a finished recording: names, the trace on disk, the report. */

#include <stdbool.h>

#include "base/err.h"
#include "cli/resolver.h"
#include "cli/run_options.h"
#include "trace/store.h"

struct run_traces {
    const struct run_options *options;
    struct resolver resolver;
    bool resolver_runs;
    bool exceeded; /* some --fail-if held */
};

/* Starts what looks for names, unless it is not wanted: to be called before there are threads. */
void run_traces_init(struct run_traces *r, const struct run_options *o);
void run_traces_release(struct run_traces *r);

/* Finds names and saves the trace. What goes wrong with names is said, and no error. */
int run_trace_save(struct run_traces *r, struct trace *t, const char *path, bool replace,
                   struct err *e);

/* Checks the budgets alone. A trace without memory events, as of a short child, is passed over. */
int run_trace_check(struct run_traces *r, struct trace *t, struct err *e);

/* Does all for the trace that a report is wanted of: saves it, checks the budgets, reports. */
int run_trace_finish(struct run_traces *r, struct trace *t, const char *path, bool replace,
                     struct err *e);

#endif
