#pragma once

/*
 * Overflow storage of a queue (base/due_queue.h): lists of extents in an unnamed temporary file.
 * Extents that were read are reused, so the file grows only to the largest amount stored at one
 * time. Zero-initialise to get an empty one: the file is created with the first extent.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/vec.h"

#define DUE_EXTENT 4096u /* the most items of an extent */

struct due_item {
    uint64_t key;
    uint64_t value;
};

struct due_extent {
    uint32_t next; /* 1 + number of the list's next extent, 0 at the end */
    uint32_t n;    /* items */
};

/* A list of extents, in the order in which they were put. */
struct due_list {
    uint32_t first, last; /* 1 + number of an extent; `first` is 0 if the list is empty */
};

struct due_file {
    const char *dir; /* folder of the file, set by the owner; NULL: $TMPDIR, else /var/tmp */
    bool is_open;
    int fd;
    uint32_t vacant; /* list of free extents */
    VEC(struct due_extent) extents;
};

void due_file_release(struct due_file *f);

/* Appends an extent of `n` items, 1 to DUE_EXTENT, to the list. Returns -1 with `e` on failure. */
int due_file_put(struct due_file *f, struct due_list *list, const struct due_item *items, size_t n,
                 struct err *e);

/*
 * Removes the first extent of a non-empty list. *items has room for an extent. Returns -1 with `e`
 * on failure.
 */
int due_file_take(struct due_file *f, struct due_list *list, struct due_item *items, size_t *n,
                  struct err *e);
