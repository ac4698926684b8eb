#ifndef TIDEMARK_IMPORT_HEAPTRACK_LINES_H
#define TIDEMARK_IMPORT_HEAPTRACK_LINES_H

/*
 * Lines of a heaptrack file: a letter, a space, hexadecimal numbers and texts with spaces between.
 * Source: src/util/linereader.h of heaptrack 1.5.0.
 */

#include "base/buf.h"
#include "import/source.h"

/* One line; what is left of it. */
struct heaptrack_line {
    char mode; /* its letter; '#' when it is empty */
    const char *p, *end;
};

struct heaptrack_lines {
    struct import_source *source;
    struct view block; /* not yet read */
    struct buf joined; /* a line that goes over the end of a block */
    uint64_t count;    /* lines read */
};

void heaptrack_lines_release(struct heaptrack_lines *l);

/*
 * The next line without its end. 1, 0 at the end, -1 on an error. *whole is false for what follows
 * the last line end.
 */
int heaptrack_lines_next(struct heaptrack_lines *l, struct heaptrack_line *line, bool *whole,
                         struct err *e);

/* Takes the next number. False at the end of the line, or when there is none. */
bool heaptrack_number(struct heaptrack_line *line, uint64_t *value);

/* Takes the next text: with its length before it, since version 3, or else up to a space. */
bool heaptrack_text(struct heaptrack_line *line, bool sized, struct view *text);

#endif
