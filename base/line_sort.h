#pragma once

/*
 * Sorts lines (byte strings of any length) by their bytes in bounded memory. Sorted runs that
 * exceed memory go to an unlinked temporary file and are merged at the end. Lines that arrive in
 * order form a single run of any length. A line usually begins with a key of big-endian numbers.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/vec.h"
#include "base/view.h"

struct line_entry {
    uint64_t head[2]; /* the first 16 bytes, big-endian, padded with zeros */
    size_t offset, len;
};

struct line_run {
    uint64_t offset, bytes; /* in the temporary file */
};

struct line_sort {
    size_t capacity; /* most bytes kept in memory */
    const char *dir;
    struct buf lines;
    VEC(struct line_entry) entries;
    bool in_order;   /* whether the current lines arrived in order */
    struct buf last; /* the last line of the last run */
    struct buf out;  /* buffered output */
    int fd;          /* opened on first use; -1 before */
    uint64_t end;
    VEC(struct line_run) runs;
};

#define LINE_SORT_BYTES ((size_t)48 << 20)

/*
 * `capacity`: bytes kept in memory; 0: LINE_SORT_BYTES. A single line may need more. `dir` is the
 * folder of the temporary file; NULL: $TMPDIR, else /var/tmp. The string must outlive the sort.
 */
void line_sort_init(struct line_sort *s, size_t capacity, const char *dir);
void line_sort_release(struct line_sort *s);

/* Adds a line in two parts, either of which may be empty. */
int line_sort_add(struct line_sort *s, struct view key, struct view text, struct err *e);

typedef int line_sort_put(void *ctx, struct view line, struct err *e);

/* Passes all lines in order to `put` and empties the sort for reuse. */
int line_sort_drain(struct line_sort *s, line_sort_put *put, void *ctx, struct err *e);
