#pragma once

/*
 * How text fits a terminal: its width, colours, bars, columns that fit, names shortened in the
 * middle, and lines folded at blanks. Text that goes elsewhere is not fitted.
 */

#include <stdbool.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/view.h"

struct terminal_form {
    unsigned width; /* columns; 0: the text goes to no terminal */
    bool colors;
};

/* Whether `out` is a terminal that supports colours (NO_COLOR, TERM=dumb), and its width (80). */
bool terminal_takes_colors(FILE *out);
unsigned terminal_width(FILE *out);

/* The form of a stream; all zero if it is no terminal. */
struct terminal_form terminal_form_of(FILE *out);

/* What a colour means. */
enum tint {
    TINT_NONE,
    TINT_HOT,   /* half of the whole or more; growth; a failure */
    TINT_WARM,  /* a tenth of the whole or more; a note */
    TINT_GOOD,  /* less than before; a check that holds */
    TINT_FAINT, /* what explains the line before */
    TINT_TITLE,
};

/* From tint to tint_end text has the colour, if the terminal takes colours. */
void tint(struct buf *b, struct terminal_form form, enum tint which);
void tint_end(struct buf *b, struct terminal_form form, enum tint which);

/* The tint of a share. */
enum tint share_tint(uint64_t part, uint64_t whole);

#define SHARE_WIDTH 6u
#define BAR_WIDTH 6u

/* A share as a bar of BAR_WIDTH, two blanks before it. */
void cell_bar(struct buf *b, struct terminal_form form, enum tint which, uint64_t part,
              uint64_t whole);

/*
 * Text of the trace, escaped, in at most `width` columns (1 or more): a longer one loses its middle
 * to "…". Returns the columns used.
 */
size_t put_shortened(struct buf *b, struct view text, size_t width);

/* The columns that names keep when others compete with them. */
unsigned names_least(unsigned width);

/* A column of a table, which is shown if there is room. */
struct fitted_column {
    unsigned width; /* with the blanks before it */
    bool shown;
};

/*
 * Sets `shown` of those that fit into `room`, of which the first ones get their part first. Returns
 * the room that is left.
 */
unsigned fit_columns(struct fitted_column *columns, size_t n, unsigned room);

/*
 * Writes `text`, whose lines are folded at blanks to the width of the terminal. Continuations are
 * indented two blanks more than the line. Without a terminal: as it is.
 */
void write_folded(struct terminal_form form, struct view text, FILE *out);
