#ifndef TIDEMARK_REPORT_WRITE_MARKDOWN_TABLE_H
#define TIDEMARK_REPORT_WRITE_MARKDOWN_TABLE_H

/*
 * Tables in Markdown, for the comment on a change. All text of a trace goes through markup.h, so
 * that none of it is markup.
 */

#include "analysis/figures/selection.h"
#include "analysis/names/frames.h"
#include "report/write/document.h"

/* "### TITLE PROGRAM", and what was selected where not all is. */
void markdown_title(struct document *d, const char *title, const struct trace *t,
                    const struct selection_options *only);

/* Begins a table. Titles are apart by "|"; ">" before one aligns its column to the right. */
void markdown_columns(struct document *d, const char *titles);

/* Cells of a row from left to right, then its end. */
void markdown_text(struct document *d, const char *text); /* our own, as it is */
void markdown_code(struct document *d, struct view text); /* the trace's */
void markdown_count(struct document *d, uint64_t n);
void markdown_bytes(struct document *d, uint64_t n);
void markdown_duration(struct document *d, int64_t ns);
void markdown_row_end(struct document *d);

/* The cell of a site: "function (file.cpp:12)", or that there was no call stack. */
void markdown_site(struct document *d, const struct frame_view *f, bool no_callstack);

/* After a table of `shown` out of `all` rows: how many are missing, if any. */
void markdown_rest(struct document *d, size_t shown, size_t all, const char *what);

/* The call stack of a row, behind a click; nothing without one. Not within a table. */
void markdown_stack(struct document *d, const struct trace *t, const struct frame_view *site,
                    uint32_t callstack);

#endif
