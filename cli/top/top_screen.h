#pragma once

/*
 * The terminal of `tidemark top`, through ncurses: clips text by columns, and replaces characters
 * that the locale lacks. All non-ASCII text has to go through screen_text.
 */

#include <stdbool.h>
#include <stdio.h>

#include "base/err.h"
#include "base/view.h"

enum screen_style {
    SCREEN_PLAIN,
    SCREEN_BOLD,
    SCREEN_DIM,
    SCREEN_BAR,    /* first and last line */
    SCREEN_CHOSEN, /* the cursor's row */
    SCREEN_WARM,   /* a large share */
    SCREEN_HOT,    /* most of the total */
};

/* Keys that are not characters. */
enum {
    SCREEN_NO_KEY = -1,
    SCREEN_UP = 0x1000,
    SCREEN_DOWN,
    SCREEN_LEFT,
    SCREEN_RIGHT,
    SCREEN_PAGE_UP,
    SCREEN_PAGE_DOWN,
    SCREEN_HOME,
    SCREEN_END,
    SCREEN_ENTER,
    SCREEN_BACKSPACE,
    SCREEN_RESIZE,
    SCREEN_OTHER,
};

struct screen {
    void *terminal; /* ncurses' SCREEN; NULL: closed */
    FILE *tty;      /* /dev/tty, when standard input is a trace */
    int fd;         /* to poll for keys */
    bool utf8, colours;
    unsigned width, height;
};

/*
 * `stdin_taken`: read keys from /dev/tty. ERR_USAGE when there is no terminal, or terminfo does not
 * know it.
 */
int screen_open(struct screen *s, bool stdin_taken, struct err *e);

/* Restores the terminal. Harmless when closed. */
void screen_close(struct screen *s);

/* A pressed key, or SCREEN_NO_KEY; does not block. */
int screen_key(struct screen *s);

void screen_clear(struct screen *s);

/*
 * Writes UTF-8 text, already escaped, at a column of a line, at most `columns` wide. Returns its
 * width.
 */
unsigned screen_text(struct screen *s, unsigned line, unsigned column, unsigned columns,
                     enum screen_style style, struct view text);

/* Fills the rest of a line with a style, from a column on. */
void screen_fill(struct screen *s, unsigned line, unsigned column, enum screen_style style);

/* Shows the drawing, with the cursor at a position (`line` < 0: hidden). */
void screen_show(struct screen *s, int line, unsigned column);
