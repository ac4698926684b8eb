#pragma once

/*
 * Memory use over time as a picture: for each pool a line of the highest use per time interval,
 * with its peak marked, and the RSS of the process, if the trace has it; the blocks in use below.
 * Only the pools with the highest peaks are drawn; the number of others is stated.
 */

#include <stdio.h>

#include "analysis/questions/timeline.h"
#include "base/err.h"
#include "report/picture/canvas.h"

/* Time intervals: as many as are distinguishable, and the maximum. */
#define TIMELINE_PICTURE_BUCKETS 840
#define TIMELINE_PICTURE_BUCKETS_MAX 5000

/* ERR_OUTPUT if `out` cannot be written. */
int timeline_draw(const struct timeline *t, const struct trace *trace, enum picture_format format,
                  FILE *out, struct err *e);
