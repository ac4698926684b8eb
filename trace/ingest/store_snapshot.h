#pragma once

/*
 * The store and the ingest at the beginning of a part, right after ingest_begin_part: names, call
 * stacks and state that lasts from earlier parts. There are no events at that point, and the
 * contents of the columns follow from the lasting state, so the snapshot leaves the columns out.
 */

#include "base/snapshot.h"
#include "trace/ingest/ingest.h"
#include "trace/ingest/renumber.h"
#include "trace/store/store.h"

/*
 * Both directions (base/snapshot.h). Reading needs a store and an ingest that were just
 * initialised; after a failure they may only be released.
 */
void trace_snapshot(struct snapshot *s, struct trace *t);
void ingest_snapshot(struct snapshot *s, struct ingest *in);

/*
 * With a renumbering: marks all elements that the store and the ingest refer to. Mark call stacks
 * that other modules hold before.
 */
void snapshot_note(struct snapshot *s, struct ingest *in);

/* Parts of it. Names (trace/ingest/snapshot_names.c) … */
void snapshot_names(struct snapshot *s, struct trace *t);
void snapshot_callstacks(struct snapshot *s, struct trace *t);
void snapshot_string(struct snapshot *s, const struct trace *t, uint32_t *number);
void snapshot_callstack_id(struct snapshot *s, const struct trace *t, uint32_t *id);
void snapshot_thread_number(struct snapshot *s, const struct trace *t, uint16_t *number);
void snapshot_location(struct snapshot *s, const struct trace *t, int16_t *number);

/* A map whose keys or values are string numbers; other values must be below `n`. */
enum snapshot_map_of { MAP_TO_STRING, MAP_FROM_STRING, MAP_FROM_TWO_STRINGS };
void snapshot_string_map(struct snapshot *s, const struct trace *t, struct map *m,
                         enum snapshot_map_of of, uint64_t n, const char *what);

/* … and lasting state (trace/ingest/snapshot_lasting.c, trace/ingest/snapshot_gpu.c). */
void snapshot_lasting(struct snapshot *s, struct trace *t);
void snapshot_gpu(struct snapshot *s, struct trace *t);
