#pragma once

/* Shared by runs_report.c and its formats. For report/runs_*.c only. */

#include "report/runs_report.h"
#include "report/write/document.h"

struct runs_writer {
    const struct runs_diff *d;
    const struct diff_report_options *options;
    struct document doc;
};

/* The rows of a kind: returns their number, the first one and how many to show. */
size_t runs_rows_of(const struct runs_writer *w, enum diff_kind kind, size_t *first, size_t *shown);

void runs_text_write(struct runs_writer *w);
void runs_markdown_write(struct runs_writer *w);
void runs_junit_write(struct runs_writer *w);
