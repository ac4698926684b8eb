#pragma once

/*
 * Writes the store as a stream of records, in file order. A store loaded from a file holds only the
 * data that reports need; other lists are empty, which is valid.
 */

#include "trace/file/record.h"
#include "trace/store/store.h"

/* Puts the whole trace to `sink`. */
int trace_save(struct trace *t, const struct record_sink *sink, struct err *e);

/*
 * Puts a trace of the same names and no data: strings, threads, source locations, call stacks,
 * frames, symbols and app info keep their numbers; there are no events of any kind, and no pools.
 */
int trace_save_names(struct trace *t, const struct record_sink *sink, struct err *e);
