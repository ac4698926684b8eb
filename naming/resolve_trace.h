#pragma once

/* Names the frames of a trace in memory, after a capture or for a report. */

#include "base/err.h"
#include "naming/resolve_book.h"
#include "trace/store/store.h"

int resolve_trace(struct resolver *r, struct trace *t, enum frame_policy policy,
                  struct resolve_summary *s, struct err *e);

/*
 * The options of commands that load a trace and show frames: --resolve, and --runtime-frames.
 * Zero-initialised: not given.
 */
struct resolve_request {
    bool wanted;
    bool hide_runtime; /* frames of runtimes, see analysis/names/runtime_frames.h */
    struct resolve_options options;
};

void resolve_request_release(struct resolve_request *q);

/*
 * Starts the helper if --resolve was given. Call it before opening the trace. `r` must be
 * RESOLVER_NONE.
 */
int resolve_request_start(const struct resolve_request *q, struct resolver *r, struct err *e);

/*
 * Names the frames of the trace if --resolve was given, and reports the result on standard error.
 * Then takes frames of runtimes out of call stacks if they are to be hidden.
 */
int resolve_request_names(const struct resolve_request *q, struct resolver *r, struct trace *t,
                          struct err *e);

/* The number of frames that the client marked for later resolution. */
uint64_t resolve_count_unresolved(const struct trace *t);

/*
 * Warns on standard error, each line after "tidemark: ", about images that could not be read,
 * frames whose image has no known base, and debuginfod servers that could not be asked.
 */
void resolve_summary_warn(const struct resolve_summary *s);
