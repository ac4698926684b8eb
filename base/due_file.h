#ifndef TIDEMARK_BASE_DUE_FILE_H
#define TIDEMARK_BASE_DUE_FILE_H

/*
 * Where items of a queue (base/due_queue.h) wait that memory has no room for: lists of extents in a
 * temporary file without a name. An extent that was read is vacant and used again, so the file is
 * no longer than what waited in it at once. Zero-initialise to get an empty one: the file appears
 * with the first extent.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/vec.h"

#define DUE_EXTENT 4096u /* items at most */

struct due_item {
    uint64_t key;
    uint64_t value;
};

struct due_extent {
    uint32_t next; /* 1 + the number of the next one in its list, 0 at the end */
    uint32_t n;    /* items */
};

struct due_file {
    const char *dir; /* for the file; NULL: $TMPDIR, else /var/tmp; the owner may set it */
    bool is_open;
    int fd;
    uint32_t vacant; /* list */
    VEC(struct due_extent) extents;
};

void due_file_release(struct due_file *f);

/* Puts an extent of `n` items, 1 to DUE_EXTENT, before the list. -1 with `e`. */
int due_file_put(struct due_file *f, uint32_t *list, const struct due_item *items, size_t n,
                 struct err *e);

/* Takes the first extent of the list, which is not 0; *items has room for one. -1 with `e`. */
int due_file_take(struct due_file *f, uint32_t *list, struct due_item *items, size_t *n,
                  struct err *e);

#endif
