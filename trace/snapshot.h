#ifndef TIDEMARK_TRACE_SNAPSHOT_H
#define TIDEMARK_TRACE_SNAPSHOT_H

/*
 * The store and the ingest at the beginning of a part, right behind trace_carry_over: names, call
 * stacks and what lasts from earlier parts. There are no events then, so the columns need not be
 * kept: what stands in them follows from what lasts.
 */

#include "base/snapshot.h"
#include "trace/ingest.h"
#include "trace/store.h"

/*
 * Both ways (base/snapshot.h). Read into a store and an ingest that were just initialised; after a
 * failure they must only be released.
 */
void trace_snapshot(struct snapshot *s, struct trace *t);
void ingest_snapshot(struct snapshot *s, struct ingest *in);

/* Parts of it. Of names (trace/snapshot_names.c) … */
void snapshot_names(struct snapshot *s, struct trace *t);
void snapshot_callstacks(struct snapshot *s, struct trace *t);
void snapshot_string(struct snapshot *s, const struct trace *t, uint32_t *number);
void snapshot_callstack_id(struct snapshot *s, const struct trace *t, uint32_t *id);
void snapshot_thread_number(struct snapshot *s, const struct trace *t, uint16_t *number);

/* … and of what lasts (trace/snapshot_lasting.c, trace/snapshot_gpu.c). */
void snapshot_lasting(struct snapshot *s, struct trace *t);
void snapshot_gpu(struct snapshot *s, struct trace *t);

#endif
