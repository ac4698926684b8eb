#ifndef TIDEMARK_BASE_SPOOL_H
#define TIDEMARK_BASE_SPOOL_H

/*
 * File-backed columns: append-only arrays of fixed-size elements that keep only the newest chunks
 * in memory. One spool serves many columns and holds them to one budget of resident bytes; what
 * does not fit goes, oldest chunk first, to an unlinked temporary file by pwrite (never mmap: a
 * full disk is an error to report, not a signal). A spool that never exceeds its budget creates no
 * file.
 *
 * Elements are addressed by index. A column may be declared `patchable`: then any element can be
 * overwritten later (elements of at most 20 bytes); overwrites of chunks already on disk are
 * collected and written in batches.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/vec.h"

struct column_chunk {
    uint8_t *data;  /* NULL once it is on disk only */
    uint64_t place; /* offset in the spool file, SPOOL_NOWHERE while never written */
    struct column *owner;
    uint32_t index;
};

struct spool {
    char *dir; /* where the temporary file goes */
    int fd;    /* -1 until needed */
    uint64_t end;
    size_t budget;
    size_t resident;
    VEC(struct column_chunk *) queue; /* full resident chunks, oldest first from queue_head */
    size_t queue_head;
    VEC(uint8_t *) spare; /* chunk buffers to use again */
    size_t spare_size;
};

struct column_patch;

struct column {
    struct spool *spool;
    size_t size;      /* bytes of one element */
    size_t per_chunk; /* elements of one chunk, a power of two */
    unsigned shift;
    bool patchable;
    uint64_t len;
    uint8_t *tail; /* next element of the newest chunk */
    VEC(struct column_chunk *) chunks;
    struct column_patch *patches;
    size_t patch_count;
};

/* `dir` is copied; NULL means $TMPDIR, else /var/tmp. `budget` in bytes. */
int spool_init(struct spool *s, const char *dir, size_t budget, struct err *e);
void spool_release(struct spool *s);

/* Columns must be released before their spool. A patchable element has at most 20 bytes. */
void column_init(struct column *c, struct spool *s, size_t element_size, bool patchable);
void column_release(struct column *c);

/* Drops all elements, keeping the column usable. */
void column_clear(struct column *c);

int column_append_slow(struct column *c, struct err *e);

/*
 * Room for one more element, uninitialised; the element counts from now on. Valid until the next
 * append to any column of the spool. NULL with `e` filled when memory or disk is short.
 */
static inline void *column_append(struct column *c, struct err *e)
{
    if ((c->len & (c->per_chunk - 1)) == 0 && column_append_slow(c, e) != 0)
        return NULL;
    uint8_t *p = c->tail;
    c->tail += c->size;
    c->len++;
    return p;
}

int column_patch_slow(struct column *c, uint64_t index, const void *element, struct err *e);

/* Overwrites an element of a patchable column. `index` must be below len. */
static inline int column_patch(struct column *c, uint64_t index, const void *element, struct err *e)
{
    struct column_chunk *k = c->chunks.at[index >> c->shift];
    if (!k->data)
        return column_patch_slow(c, index, element, e);
    __builtin_memcpy(k->data + (index & (c->per_chunk - 1)) * c->size, element, c->size);
    return 0;
}

/*
 * Sequential reading, chunk by chunk: column_reader_next gives the next run of elements and its
 * length in *n; NULL at the end (and *n = 0), or NULL with e->code set on an error.
 */
struct column_reader {
    struct column *column;
    uint64_t next; /* index of the next element */
    uint8_t *buffer;
};

void column_reader_init(struct column_reader *r, struct column *c);
const void *column_reader_next(struct column_reader *r, size_t *n, struct err *e);
void column_reader_release(struct column_reader *r);

/* Copies one element out. */
int column_get(struct column *c, uint64_t index, void *element, struct err *e);

#endif
