#ifndef TIDEMARK_CLI_TOP_TOP_SCREEN_H
#define TIDEMARK_CLI_TOP_TOP_SCREEN_H

/*
 * The terminal of `tidemark top`, through ncurses: text is clipped by columns, and characters that
 * the locale has not are replaced. Everything beyond ASCII that is written here passes through
 * screen_text.
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
    SCREEN_CHOSEN, /* the row of the cursor */
    SCREEN_WARM,   /* a large part of the whole */
    SCREEN_HOT,    /* most of it */
};

/* Keys beyond characters. */
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
    void *terminal; /* ncurses' own; NULL: closed */
    FILE *tty;      /* /dev/tty, when standard input is a trace */
    int fd;         /* to wait for keys on */
    bool utf8, colours;
    unsigned width, height;
};

/* `stdin_taken`: keys come from /dev/tty. ERR_USAGE when there is no terminal, or none we know. */
int screen_open(struct screen *s, bool stdin_taken, struct err *e);

/* Gives the terminal back as it was. Harmless when closed. */
void screen_close(struct screen *s);

/* A key that was pressed, or SCREEN_NO_KEY; does not wait. */
int screen_key(struct screen *s);

void screen_clear(struct screen *s);

/*
 * Writes UTF-8 text, which must be harmless already, at a column of a line, at most so many
 * columns. Returns how many it took.
 */
unsigned screen_text(struct screen *s, unsigned line, unsigned column, unsigned columns,
                     enum screen_style style, struct view text);

/* Fills what is left of a line with a style, from a column on. */
void screen_fill(struct screen *s, unsigned line, unsigned column, enum screen_style style);

/* Brings the drawing to the terminal, the cursor at a place (`line` < 0: hidden). */
void screen_show(struct screen *s, int line, unsigned column);

#endif
