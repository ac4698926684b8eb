#ifndef TIDEMARK_NAMING_RESOLVE_TRACE_H
#define TIDEMARK_NAMING_RESOLVE_TRACE_H

/* Names for the frames of a trace in memory: after a capture, or for a report. */

#include "base/err.h"
#include "naming/resolve_book.h"
#include "trace/store/store.h"

int resolve_trace(struct resolver *r, struct trace *t, enum frame_policy policy,
                  struct resolve_summary *s, struct err *e);

/* --resolve, of commands that load a trace and show frames; zero-initialised it is not given. */
struct resolve_request {
    bool wanted;
    struct resolve_options options;
};

void resolve_request_release(struct resolve_request *q);

/* Starts the helper, if it is wanted: before the trace is opened. `r` is RESOLVER_NONE. */
int resolve_request_start(const struct resolve_request *q, struct resolver *r, struct err *e);

/* Names the frames of the trace, if that is wanted; tells how it went on standard error. */
int resolve_request_names(const struct resolve_request *q, struct resolver *r, struct trace *t,
                          struct err *e);

/* Frames that the client marked as to be resolved later. */
uint64_t resolve_count_unresolved(const struct trace *t);

/*
 * What went wrong, on standard error, each line with "tidemark: " before it: images that could not
 * be read, and frames whose image has no known base.
 */
void resolve_summary_warn(const struct resolve_summary *s);

#endif
