#ifndef TIDEMARK_REPORT_PICTURE_TIMELINE_PICTURE_H
#define TIDEMARK_REPORT_PICTURE_TIMELINE_PICTURE_H

/*
 * Memory use over time as a picture: a line for each pool, the highest use of each piece of time,
 * with its peak marked; the blocks in use below. The pools with the highest peaks are drawn, and it
 * is said how many are not.
 */

#include <stdio.h>

#include "analysis/questions/timeline.h"
#include "base/err.h"
#include "report/picture/canvas.h"

/* Pieces of time: as many as can be told apart, and most. */
#define TIMELINE_PICTURE_BUCKETS 840
#define TIMELINE_PICTURE_BUCKETS_MAX 5000

/* ERR_OUTPUT when `out` cannot be written. */
int timeline_draw(const struct timeline *t, const struct trace *trace, enum picture_format format,
                  FILE *out, struct err *e);

#endif
