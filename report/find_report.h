#pragma once

/* Allocations found by address, as text, JSON ("tidemark.find/1") or CSV. */

#include <stdio.h>

#include "analysis/questions/find.h"
#include "base/err.h"
#include "report/report.h"

struct find_report_options {
    enum report_format format;
    bool stack_traces; /* text: whole call stacks, not only the first frame of the program */
};

/* ERR_OUTPUT if `out` cannot be written. */
int find_write(const struct find_result *r, const struct history *h,
               const struct find_report_options *options, FILE *out, struct err *e);
