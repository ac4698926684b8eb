#ifndef TIDEMARK_REPORT_EXPORT_CHROME_EXPORT_H
#define TIDEMARK_REPORT_EXPORT_CHROME_EXPORT_H

/*
 * A trace in the JSON form of Chrome's trace events, which Perfetto opens, too: zones, messages,
 * plots, frames, and the use of each pool as counters.
 *
 * Source: "Trace Event Format" of the Chromium project.
 */

#include <stdio.h>

#include "analysis/tables/tables.h"
#include "base/err.h"

struct chrome;

/* `points`: of each pool's use, see usage.h. */
struct chrome *chrome_open(FILE *out, uint64_t points, struct err *e);
void chrome_free(struct chrome *c);

struct table_sink chrome_sink(struct chrome *c);
int chrome_finish(struct chrome *c, struct err *e);

#endif
