#pragma once

/*
 * Lines of a heaptrack file: a letter, then hexadecimal numbers and texts, separated by spaces.
 * Source: src/util/linereader.h of heaptrack 1.5.0.
 */

#include "base/buf.h"
#include "import/source.h"

/* The unread rest of a line. */
struct heaptrack_line {
    char mode; /* its letter; '#' when it is empty */
    const char *p, *end;
};

struct heaptrack_lines {
    struct import_source *source;
    struct view block; /* unread bytes */
    struct buf joined; /* a line that spans two blocks */
    uint64_t count;    /* lines read */
};

void heaptrack_lines_release(struct heaptrack_lines *l);

/*
 * Reads the next line without its line end. Returns 1, 0 at the end, or -1 on an error. *whole is
 * false for a last line without a line end.
 */
int heaptrack_lines_next(struct heaptrack_lines *l, struct heaptrack_line *line, bool *whole,
                         struct err *e);

/* Reads the next number. False when there is none on the line. */
bool heaptrack_number(struct heaptrack_line *line, uint64_t *value);

/* Reads the next text: since version 3 prefixed with its length, before that up to a space. */
bool heaptrack_text(struct heaptrack_line *line, bool sized, struct view *text);
