#ifndef TIDEMARK_BASE_SPOOL_H
#define TIDEMARK_BASE_SPOOL_H

/*
 * File-backed columns: append-only arrays of small structures whose resident memory does not grow
 * with their length. A chunk of a column goes through three states:
 *
 *     raw      the newest chunk, as it is, and of a patchable column those before it, too:
 *              elements can be overwritten in place
 *     packed   older ones, in as few bits as they need (base/pack.h), in memory
 *     on disk  the oldest ones, packed, in an unlinked temporary file
 *
 * One spool serves many columns and holds them to one budget of bytes. A spool that never exceeds
 * it creates no file. The file is written with pwrite, never mapped: a full disk is an error to
 * report, not a signal.
 *
 * Elements of a patchable column can be overwritten at any time. Overwrites of chunks that are raw
 * no more are kept in logs, one for each stretch of COLUMN_LOG_CHUNKS chunks, and applied whenever
 * such a chunk is read.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/pack.h"
#include "base/slab.h"
#include "base/vec.h"

#define COLUMN_CHUNK 8192u /* elements: a few hundred KiB, which a processor's cache holds */
#define COLUMN_LOG_CHUNKS 128u
#define COLUMN_FIRST 64u /* elements that a column's first chunk begins with: many stay short */

struct column;

struct column_chunk {
    uint8_t *raw;    /* NULL once it is packed */
    uint8_t *packed; /* NULL while raw, and once it is on disk */
    size_t packed_len;
    uint64_t place; /* in the file, when neither raw nor packed */
    struct column *owner;
};

/* Chunks in the order in which they leave a state. */
struct chunk_queue {
    VEC(struct column_chunk *) list; /* NULL: cleared since */
    size_t head;
    size_t bytes;
};

struct spool {
    char *dir; /* where the temporary file goes */
    int fd;    /* -1 until needed */
    uint64_t end;
    uint64_t base;     /* place of the file's first byte */
    int old_fd;        /* the file before it, until spool_forget_old; -1: none */
    uint64_t old_base; /* place of its first byte */
    size_t raw_budget;
    size_t packed_budget;
    struct chunk_queue raw; /* full ones only */
    struct chunk_queue packed;
    struct slab buffers; /* of raw chunks, but each column's first */
    uint8_t *scratch;
    size_t scratch_size;
};

/* `dir` is copied; NULL means $TMPDIR, else /var/tmp. `budget` in bytes, for all columns. */
int spool_init(struct spool *s, const char *dir, size_t budget, struct err *e);
void spool_release(struct spool *s);

/*
 * Holds the columns to another budget from now on; what is beyond it is packed or written at once.
 * To be called between appends.
 */
int spool_set_budget(struct spool *s, size_t budget, struct err *e);

/* Its files are made in that folder from now on, as where the one before is gone. -1: no memory. */
int spool_set_dir(struct spool *s, const char *dir, struct err *e);

/*
 * What is written from now on goes to another file, so that the one before can go, or be a forked
 * process's alone. It stays readable until spool_forget_old, which is called when nothing that is
 * in it is needed here any more.
 */
void spool_renew(struct spool *s);
void spool_forget_old(struct spool *s);

/* A temporary file of somebody else in the same folder, without a name. -1 with ERR_OUTPUT. */
int spool_temporary(const struct spool *s, struct err *e);

/* Bytes of no column to the end of the file, at *place; and from there. For base/blobs.h. */
int spool_store(struct spool *s, const void *bytes, size_t n, uint64_t *place, struct err *e);
int spool_load(struct spool *s, void *bytes, size_t n, uint64_t place, struct err *e);

struct column {
    struct spool *spool;
    const struct pack_layout *layout;
    bool patchable;
    uint64_t len;
    uint8_t *tail;  /* where the next element goes */
    uint8_t *limit; /* where the newest chunk's room ends */
    VEC(struct column_chunk *) chunks;
    struct pack_layout log_layout;
    VEC(struct column *) logs; /* overwrites of the n-th stretch, or NULL */
};

/*
 * `layout` must outlive the column and have at most PACK_FIELDS_MAX - 1 fields when patchable.
 * Columns must be released before their spool.
 */
void column_init(struct column *c, struct spool *s, const struct pack_layout *layout,
                 bool patchable);
void column_release(struct column *c);

/* Drops all elements, keeping the column usable. */
void column_clear(struct column *c);

int column_append_slow(struct column *c, struct err *e);

/*
 * Room for one more element, uninitialised; the element counts from now on. Valid until the next
 * append to any column of the spool. NULL with `e` filled when memory or disk is short. `size` is
 * that of the layout: where the type is known it costs nothing to say it.
 */
static inline void *column_append_sized(struct column *c, size_t size, struct err *e)
{
    if (__builtin_expect(c->tail == c->limit, 0) && column_append_slow(c, e) != 0)
        return NULL;
    uint8_t *p = c->tail;
    c->tail += size;
    c->len++;
    return p;
}

static inline void *column_append(struct column *c, struct err *e)
{
    return column_append_sized(c, c->layout->element, e);
}

/* Takes the newest element back. There must be one. */
static inline void column_drop_last(struct column *c)
{
    c->tail -= c->layout->element;
    c->len--;
}

int column_patch_slow(struct column *c, uint64_t index, const void *element, struct err *e);

/*
 * An element of `size` bytes, to be overwritten in place; NULL when its chunk is raw no more, which
 * calls for column_patch_slow. `index` must be below len.
 */
static inline void *column_raw(const struct column *c, uint64_t index, size_t size)
{
    const struct column_chunk *k = c->chunks.at[index / COLUMN_CHUNK];
    return k->raw ? k->raw + (index & (COLUMN_CHUNK - 1)) * size : NULL;
}

/*
 * Overwrites an element of a patchable column. `index` must be below len. Where the type is known
 * column_raw is faster: a copy of a length known only at run time waits for the element's stores.
 */
static inline int column_patch(struct column *c, uint64_t index, const void *element, struct err *e)
{
    size_t size = c->layout->element;
    uint8_t *at = column_raw(c, index, size);
    if (!at)
        return column_patch_slow(c, index, element, e);
    __builtin_memcpy(at, element, size);
    return 0;
}

struct column_log; /* overwrites of one stretch, sorted by chunk */

/*
 * Sequential reading from element `next` on: column_reader_next gives the next run of elements, at
 * most a chunk, and its length in *n; NULL at the end (*n = 0, e->code untouched) or on an error.
 * The column must not change meanwhile.
 */
struct column_reader {
    struct column *column;
    uint64_t next;
    uint8_t *buffer;
    struct column_log *log;
};

void column_reader_init(struct column_reader *r, struct column *c);
const void *column_reader_next(struct column_reader *r, size_t *n, struct err *e);
void column_reader_release(struct column_reader *r);

#endif
