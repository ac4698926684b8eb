#pragma once

/*
 * What was in memory, which is stored after a trace (trace/file/appendix.h): looks at the pages of
 * its process, and what each call stack had there. Traces without them leave `t` as it is.
 * ERR_INPUT: they are malformed.
 */

#include "base/err.h"
#include "trace/file/appendix.h"
#include "trace/store/store.h"

/* t->looks. */
int trace_load_looks(struct trace *t, const char *path, struct err *e);

/* t->resident. */
int trace_load_resident(struct trace *t, const char *path, struct err *e);

/* Both, from an open file. */
int trace_load_beside(struct trace *t, int fd, struct err *e);

/* t->resident, from an appendix that was read already. */
int trace_take_resident(struct trace *t, const struct appendix *a, struct err *e);

/* Whether the trace at `path` has figures only, and they are behind it: no events. */
bool trace_has_only_figures(const char *path);

/* Reads the appendix of the trace at `path`. The caller frees a->content; false: there is none. */
bool trace_read_appendix(const char *path, struct appendix *a);
