#pragma once

/* A function's instructions as text, JSON ("tidemark.annotate/1") or CSV. */

#include <stdbool.h>
#include <stdio.h>

#include "analysis/code/annotate.h"
#include "base/err.h"
#include "report/report.h"

struct annotate_report_options {
    enum report_format format;
    bool colors; /* text: highlight calls that allocated */
};

/* ERR_OUTPUT if `out` cannot be written; the same below. */
int annotate_write(const struct annotation *a, const struct annotate_report_options *options,
                   FILE *out, struct err *e);

/* Writes the list of candidate functions; JSON: "tidemark.annotate-matches/1". */
int annotate_write_matches(const struct annotate_functions *f, const struct trace *t,
                           enum report_format format, FILE *out, struct err *e);
