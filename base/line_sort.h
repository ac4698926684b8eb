#ifndef TIDEMARK_BASE_LINE_SORT_H
#define TIDEMARK_BASE_LINE_SORT_H

/*
 * Sorts lines (byte strings of any length) by their bytes in bounded memory: what does not fit goes
 * in sorted runs to an unlinked temporary file and is merged at the end. Lines that arrive in order
 * make one run, however many they are. A line usually begins with a key of big-endian numbers.
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
    size_t capacity; /* bytes kept in memory */
    const char *dir;
    struct buf lines;
    VEC(struct line_entry) entries;
    bool in_order;   /* so far */
    struct buf last; /* of the last run */
    struct buf out;  /* not written yet */
    int fd;          /* -1 until needed */
    uint64_t end;
    VEC(struct line_run) runs;
};

#define LINE_SORT_BYTES ((size_t)48 << 20)

/*
 * `capacity`: bytes in memory, 0: LINE_SORT_BYTES (a single line may need more). `dir` for the
 * temporary file, NULL: $TMPDIR, else /var/tmp; the string must outlive the sort.
 */
void line_sort_init(struct line_sort *s, size_t capacity, const char *dir);
void line_sort_release(struct line_sort *s);

/* A line in two parts, either of which may be empty. */
int line_sort_add(struct line_sort *s, struct view key, struct view text, struct err *e);

typedef int line_sort_put(void *ctx, struct view line, struct err *e);

/* Hands over all lines in order and makes the sort empty, to be used again. */
int line_sort_drain(struct line_sort *s, line_sort_put *put, void *ctx, struct err *e);

#endif
