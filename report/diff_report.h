#pragma once

/* Differences between two traces as text, JSON ("tidemark.diff/1"), CSV, Markdown or JUnit XML. */

#include <stdio.h>

#include "analysis/figures/summary.h"
#include "analysis/diff/diff.h"
#include "base/err.h"

/* In the order of the words of --format. */
enum diff_format {
    DIFF_TEXT,
    DIFF_JSON,
    DIFF_CSV,
    DIFF_HTML, /* report/html/html_diff_write.h writes it */
    DIFF_MARKDOWN,
    DIFF_JUNIT,
};

struct diff_report_options {
    enum diff_format format;
    uint64_t limit;                     /* rows of each kind; 0: all */
    bool stack_traces;                  /* text: a call stack under each row */
    const struct summary_check *checks; /* outcomes of expressions */
    size_t check_count;
    const char *suite; /* junit: the name of the test suite */
};

/* For all formats but DIFF_HTML. ERR_OUTPUT if `out` cannot be written. */
int diff_write(const struct diff *d, const struct diff_report_options *options, FILE *out,
               struct err *e);
