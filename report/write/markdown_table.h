#pragma once

/*
 * Tables in Markdown, for a pull request comment. All text of a trace passes through markup.h, so
 * it cannot act as markup.
 */

#include "analysis/figures/selection.h"
#include "analysis/names/frames.h"
#include "report/write/document.h"

/* The sign of an outcome: also of one that holds because nothing matches. Static. */
struct summary_check;
const char *markdown_sign(const struct summary_check *c);

/* "### TITLE PROGRAM", and the selection if there is one. */
void markdown_title(struct document *d, const char *title, const struct trace *t,
                    const struct selection_options *only);

/* Begins a table. "|" separates the titles; ">" before a title aligns its column to the right. */
void markdown_columns(struct document *d, const char *titles);

/* Write cells of a row from left to right, then its end. */
void markdown_text(struct document *d, const char *text); /* trusted, unescaped */
void markdown_code(struct document *d, struct view text); /* text of the trace */
void markdown_count(struct document *d, uint64_t n);
void markdown_bytes(struct document *d, uint64_t n);
void markdown_row_end(struct document *d);

/* The cell of a site: "function (file.cpp:12)", or a note that there was no call stack. */
void markdown_site(struct document *d, const struct frame_view *f, bool no_callstack);

/* After a table of `shown` out of `all` rows: the number of missing rows, if any. */
void markdown_rest(struct document *d, size_t shown, size_t all, const char *what);

/*
 * The call stack of a row in a collapsible block; nothing without a call stack. Not within a table.
 */
void markdown_stack(struct document *d, const struct trace *t, const struct frame_view *site,
                    uint32_t callstack);
