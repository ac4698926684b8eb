#pragma once

/* Text tables. Numbers are right-aligned, text left-aligned; columns are two blanks apart. */

#include "analysis/names/frames.h"
#include "base/buf.h"
#include "base/view.h"
#include "report/write/terminal_form.h"

void cell(struct buf *b, const char *text, size_t width);
void cell_count(struct buf *b, uint64_t n, size_t width);
void cell_bytes(struct buf *b, uint64_t n, size_t width);

/* Text of the trace, escaped. A text wider than the column gets a separate line. */
void cell_text(struct buf *b, struct view text, size_t width);

/* The same; on a terminal, a wider text is shortened instead. */
void cell_fitted(struct buf *b, struct terminal_form form, struct view text, size_t width);

/* A share as a percentage. */
void cell_share(struct buf *b, struct terminal_form form, enum tint which, uint64_t part,
                uint64_t whole);

/* The columns that a text of the trace takes on a terminal; sets *failed if memory is short. */
size_t text_width(struct view text, bool *failed);

/*
 * An allocation site: "function (file.cpp:12)", raw bytes, or a note that there was no call stack.
 * A long function is shortened.
 */
void put_site(struct buf *out, const struct frame_view *f, bool no_callstack);

/* A line of a call stack for a terminal; `indent` columns before the name. */
void put_stack_line(struct buf *out, const struct frame_view *f, unsigned indent);
