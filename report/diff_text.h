#pragma once

/* Shared by diff_report.c and its formats. For report/diff*.c only. */

#include "report/diff_report.h"
#include "report/write/document.h"

struct diff_writer {
    const struct diff *d;
    const struct diff_report_options *options;
    struct document doc;
    bool types; /* Markdown: rows have a type column */
};

/* "function (file.cpp:12)", or the type, raw bytes. */
void diff_row_name(struct buf *out, const struct diff_row *r, enum diff_by by);

/* The type of a row and the number of further types, raw bytes; empty if unknown. */
void diff_row_type(struct buf *out, const struct diff_row *r);

/* Whether a type column is shown. */
bool diff_has_types(const struct diff_writer *w);

/* The rows of a kind: first row, their number, and how many to show. */
struct diff_range {
    size_t first, count, shown;
};
struct diff_range diff_rows_of(const struct diff_writer *w, enum diff_kind kind);

/* Of one run on each side, for text and Markdown. */
#define DIFF_NO_NOISE                                                                              \
    "One run on each side does not show what is noise: diff BASE... -- NEW... compares several"

void diff_text_write(struct diff_writer *w);
void diff_markdown_write(struct diff_writer *w);
void diff_junit_write(struct diff_writer *w);
