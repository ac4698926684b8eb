#pragma once

/* The memory map as text or JSON ("tidemark.map/1"); fragmentation also as CSV. */

#include <stdio.h>

#include "analysis/questions/memory_map.h"
#include "base/err.h"
#include "report/report.h"

/* The columns of a terminal beside the cells of a line. */
#define MAP_MARGIN 15u

struct map_report_options {
    enum report_format format;
};

/* ERR_OUTPUT if `out` cannot be written. */
int memory_map_write(const struct memory_map *m, const struct trace *trace,
                     const struct map_report_options *options, FILE *out, struct err *e);
