#pragma once

/* Readings of a process's memory as plots of a trace, whose names begin with "kernel: ". */

#include "proc/process_memory.h"
#include "protocol/event.h"

/*
 * Adds what is known of `r` at `time`, in ns of the trace. *named: the plots that have their names;
 * 0 at the beginning of a trace.
 */
int memory_plots_add(const struct memory_reading *r, int64_t time, uint32_t *named,
                     const struct event_sink *sink, struct err *e);
