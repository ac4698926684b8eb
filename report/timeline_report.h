#pragma once

/* Memory use over time as a text chart, JSON ("tidemark.timeline/1") or CSV. */

#include <stdio.h>

#include "analysis/questions/timeline.h"
#include "base/err.h"
#include "report/report.h"

/* Lists peaks that rise above their surroundings by 1/TIMELINE_PEAK_SHARE of the highest use. */
#define TIMELINE_PEAK_SHARE 20

struct timeline_report_options {
    enum report_format format;
    unsigned rows; /* text: height of a chart */
    bool trimmed;  /* text: the window leaves out time without events at its ends */
    /* text: timeline_columns, with `gaps` of them; NULL: all buckets */
    const size_t *columns;
    size_t column_count, gaps;
};

/* ERR_OUTPUT if `out` cannot be written. */
int timeline_write(const struct timeline *t, const struct trace *trace,
                   const struct timeline_report_options *options, FILE *out, struct err *e);
