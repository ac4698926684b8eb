#pragma once

/*
 * File-backed columns: append-only arrays of small structures whose resident memory does not grow
 * with their length. A chunk of a column passes through three states:
 *
 *     raw      the newest chunk, unpacked; in a patchable column some chunks before it, too:
 *              elements can be overwritten in place
 *     packed   older chunks in memory, in as few bits as they need (base/pack.h)
 *     on disk  the oldest chunks, packed, in an unlinked temporary file
 *
 * One spool serves many columns and keeps them within one budget of bytes. A spool that never
 * exceeds the budget creates no file. The file is written with pwrite, never mapped: a full disk is
 * an error to report, not a signal.
 *
 * Elements of a patchable column can be overwritten at any time. Overwrites of chunks that are no
 * longer raw go to logs, one per range of COLUMN_LOG_CHUNKS chunks, and are applied whenever such a
 * chunk is read.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/pack.h"
#include "base/slab.h"
#include "base/vec.h"

#define COLUMN_CHUNK 8192u /* elements: a few hundred KiB, which fit a processor's cache */
#define COLUMN_LOG_CHUNKS 128u
#define COLUMN_FIRST 16u /* initial elements of a column's first chunk: many columns stay short */

struct column;

struct column_chunk {
    uint8_t *raw;    /* NULL once packed */
    uint8_t *packed; /* NULL while raw and once on disk */
    size_t packed_len;
    uint64_t place; /* file offset when neither raw nor packed */
    struct column *owner;
};

/* Chunks in the order in which they change state. */
struct chunk_queue {
    VEC(struct column_chunk *) list; /* NULL: chunk was cleared */
    size_t head;
    size_t bytes;
};

struct spool {
    char *dir; /* folder of the temporary file */
    int fd;    /* opened on first use; -1 before */
    uint64_t end;
    uint64_t base;     /* place of the file's first byte */
    int old_fd;        /* the previous file, until spool_forget_old; -1: none */
    uint64_t old_base; /* place of its first byte */
    size_t raw_budget;
    size_t packed_budget;
    struct chunk_queue raw; /* full chunks only */
    struct chunk_queue packed;
    struct slab buffers; /* of raw chunks, except each column's first */
    uint8_t *scratch;
    size_t scratch_size;
    /* Called with the elements of a column that a reader gets. NULL: never called. */
    void (*reading)(void *ctx, size_t elements);
    void *reading_ctx;
};

/* `dir` is copied; NULL: $TMPDIR, else /var/tmp. `budget` is in bytes, for all columns. */
int spool_init(struct spool *s, const char *dir, size_t budget, struct err *e);
void spool_release(struct spool *s);

/* Changes the budget. Chunks beyond it are packed or written at once. Call it between appends. */
int spool_set_budget(struct spool *s, size_t budget, struct err *e);

/* Future files go to `dir`, for instance when the old folder is gone. -1: no memory. */
int spool_set_dir(struct spool *s, const char *dir, struct err *e);

/*
 * Later writes go to a new file, so that the old one can be closed or left to a forked process. The
 * old file stays readable until spool_forget_old, which the caller calls when it no longer needs
 * its contents.
 */
void spool_renew(struct spool *s);
void spool_forget_old(struct spool *s);

/* Another unnamed temporary file in the same folder, for the caller. -1 with ERR_OUTPUT. */
int spool_temporary(const struct spool *s, struct err *e);

/* Append bytes outside columns to the file, at *place, and read them back. For base/blobs.h. */
int spool_store(struct spool *s, const void *bytes, size_t n, uint64_t *place, struct err *e);
int spool_load(struct spool *s, void *bytes, size_t n, uint64_t place, struct err *e);

struct column {
    struct spool *spool;
    const struct pack_layout *layout;
    bool patchable;
    uint64_t len;
    uint8_t *tail;  /* position of the next element */
    uint8_t *limit; /* end of the newest chunk's buffer */
    VEC(struct column_chunk *) chunks;
    struct pack_layout log_layout;
    VEC(struct column *) logs; /* overwrites of the n-th range, or NULL */
};

/*
 * `layout` must outlive the column. For a patchable column it has at most PACK_FIELDS_MAX - 1
 * fields. Release columns before their spool.
 */
void column_init(struct column *c, struct spool *s, const struct pack_layout *layout,
                 bool patchable);
void column_release(struct column *c);

/* Exchanges two columns of one spool. */
void column_swap(struct column *a, struct column *b);

/* Drops all elements and keeps the column usable. */
void column_clear(struct column *c);

int column_append_slow(struct column *c, struct err *e);

/*
 * Appends an uninitialised element and returns it. Valid until the next append to any column of the
 * spool. NULL with `e` when memory or disk is short. `size` must be the layout's; a constant lets
 * the compiler optimise.
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

/* Removes the newest element. The column must not be empty. */
static inline void column_drop_last(struct column *c)
{
    c->tail -= c->layout->element;
    c->len--;
}

int column_patch_slow(struct column *c, uint64_t index, const void *element, struct err *e);

/*
 * An element of `size` bytes, to be overwritten in place. NULL when its chunk is no longer raw;
 * then use column_patch_slow. `index` must be below len.
 */
static inline void *column_raw(const struct column *c, uint64_t index, size_t size)
{
    const struct column_chunk *k = c->chunks.at[index / COLUMN_CHUNK];
    return k->raw ? k->raw + (index & (COLUMN_CHUNK - 1)) * size : NULL;
}

/*
 * Overwrites an element of a patchable column. `index` must be below len. If the type is known at
 * compile time, column_raw is faster: a copy of run-time length waits for the element's stores.
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

struct column_log; /* overwrites of one range, sorted by chunk */

/*
 * Reads sequentially from element `next` on. column_reader_next returns the next run of elements,
 * at most a chunk, and its length in *n. It returns NULL at the end (*n = 0, e->code untouched) or
 * on an error. The column must not change meanwhile.
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

/*
 * Reads elements one by one:
 *
 *     struct column_walk w = column_walk(&column);
 *     for (const struct thing *x; (x = column_walk_next(&w, &status, e));)
 *         status = take(x, e);
 *
 * The walk ends at the column's end, when *status is not 0, and on an error, which sets it to -1.
 * It has released what it read with when NULL was returned. The column must not change meanwhile.
 */
struct column_walk {
    struct column_reader reader;
    const uint8_t *at;
    size_t size;   /* of an element */
    size_t left;   /* elements from `at` on */
    uint64_t rest; /* … and behind them */
};

/* Up to `n` elements from `first` on. */
struct column_walk column_walk_part(struct column *c, uint64_t first, uint64_t n);
/* Reads on. NULL: the walk has ended. */
const void *column_walk_on(struct column_walk *w, int *status, struct err *e);
void column_walk_end(struct column_walk *w);

static inline struct column_walk column_walk(struct column *c)
{
    return column_walk_part(c, 0, UINT64_MAX);
}

static inline const void *column_walk_next(struct column_walk *w, int *status, struct err *e)
{
    if (__builtin_expect(w->left == 0 || *status != 0, 0))
        return column_walk_on(w, status, e);
    w->left--;
    const void *element = w->at;
    w->at += w->size;
    return element;
}

/* The same of two columns with one length: both elements, or NULL twice. */
struct column_two {
    const void *first, *second;
};
struct column_two column_walk_two(struct column_walk *first, struct column_walk *second,
                                  int *status, struct err *e);
