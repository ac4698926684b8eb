#pragma once

/*
 * Leaves the memory events of a trace in its file: each sweep over them reads the file
 * (trace/store/memory.h, struct memory_replay). For one sweep that takes less time and memory than
 * columns. Names must be known before, which a file has after its events.
 */

#include <stdbool.h>

#include "trace/store/store.h"

/*
 * `t` has the names of the file, and all its pools with their totals and times. A sweep passes on
 * one pool after the other: `in_turn` says that this will do. On success the trace owns `fd`, a
 * regular file; nothing may read the columns of its pools. False: pools have to be combined in
 * order of time, or memory is short.
 */
bool trace_replay(struct trace *t, int fd, const char *name, bool in_turn);
