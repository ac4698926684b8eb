#ifndef TIDEMARK_TRACE_SAVE_SAVE_H
#define TIDEMARK_TRACE_SAVE_SAVE_H

/*
 * The store as a stream of records, in file order. A store that was loaded from a file holds only
 * what reports need; what it does not hold comes out as empty lists, which is valid.
 */

#include "trace/file/record.h"
#include "trace/store/store.h"

/* Puts the whole trace to `sink`. */
int trace_save(struct trace *t, const struct record_sink *sink, struct err *e);

/*
 * Puts a trace of the same names: strings, threads, source locations, call stacks, frames, symbols
 * and app info have the numbers that they have in the whole one; there are no events of any kind,
 * and no pools.
 */
int trace_save_names(struct trace *t, const struct record_sink *sink, struct err *e);

#endif
