#pragma once

/*
 * Exports a trace in Chrome's trace event format, which Perfetto also opens: zones, messages,
 * plots, frames, and the use of each pool as counters.
 */

#include <stdio.h>

#include "analysis/tables/tables.h"
#include "base/err.h"

struct chrome;

/* `points`: limit for each pool's use, see usage.h. */
struct chrome *chrome_open(FILE *out, uint64_t points, struct err *e);
void chrome_free(struct chrome *c);

struct table_sink chrome_sink(struct chrome *c);
int chrome_finish(struct chrome *c, struct err *e);
