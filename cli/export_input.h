#pragma once

/* tidemark export: the trace to write, and the selection. */

#include "analysis/figures/selection.h"
#include "base/err.h"
#include "report/write/progress.h"
#include "naming/resolve_trace.h"
#include "trace/load/load.h"

struct export_input {
    const char *path; /* "-": standard input */
    struct selection_options only;
    const struct resolve_request *resolve;
    struct resolver *resolver;
    size_t resident_budget; /* see struct trace_options */
    bool quiet;             /* without a progress line */
    struct progress progress;
};

/* Shows the progress of loading `t`, which ends before the input does. */
void export_watch(struct export_input *in, struct trace *t);

/* Loads the trace and names its frames, if requested: the `load` of a struct tables_source. */
int export_load(void *ctx, struct trace *t, const struct trace_load_options *options,
                struct err *e);
