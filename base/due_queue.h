#pragma once

/*
 * A queue of items ordered by a 64-bit due key. Callers take everything due up to some point at
 * once, and never put a key below that point. As in a radix heap (Ahuja, Mehlhorn, Orlin and Tarjan
 * 1990), items wait in buckets by the highest digit in which they differ from the current point.
 * Here a digit has 4 bits, and a bucket is taken as a whole and sorted. An item is moved two or
 * three times in all, mostly next to its neighbours.
 *
 * An item takes 16 bytes plus 1/64, and the queue at most 256 KiB more. If a bound is set, items
 * beyond it go to a temporary file (base/due_file.h): whole buckets, those due last first. The
 * queue reads them back when they are due. Items of equal keys come out in the order in which they
 * were put: they are always in one bucket, whose file extents are older than its chunks.
 * Zero-initialise to get an empty queue.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/due_file.h"
#include "base/err.h"
#include "base/vec.h"

#define DUE_DIGIT 4 /* bits */
#define DUE_LEVELS (64 / DUE_DIGIT)
#define DUE_DIGITS (1u << DUE_DIGIT)

/* The least effective bound in bytes: below it the queue would do little but move items. */
#define DUE_BOUND_LEAST ((size_t)512 << 10)

struct due_chunk;

struct due_bucket {
    struct due_item *next, *limit; /* free space of the newest chunk; NULL without one */
    struct due_chunk *chunks;      /* oldest first */
    struct due_chunk *newest;      /* the last of them: only it has room; NULL: none */
    size_t before;                 /* items in the older chunks and in the file */
    size_t filed;                  /* of those, items in the file */
    struct due_list extents;       /* in the file */
};

struct due_queue {
    struct due_bucket buckets[DUE_LEVELS][DUE_DIGITS];
    uint16_t occupied[DUE_LEVELS]; /* a bit for each non-empty bucket */
    uint32_t levels;               /* a bit for each non-empty level */
    uint64_t last;                 /* the current point */
    unsigned loose;                /* low key bits that need not be in order; set by the owner */
    size_t count;
    size_t bound; /* bytes for items in memory, set by the owner; 0: no bound */
    size_t used;  /* chunks in use */
    struct due_file file;
    struct due_item *coming, *going; /* one extent each, allocated on first use */
    struct due_chunk *vacant;
    VEC(void *) slabs; /* of chunks */
    VEC(struct due_item) run, room;
};

void due_queue_release(struct due_queue *q);

/*
 * Returns -1 with `e` when memory is short or the file cannot be written; the queue may then only
 * be released. A key below the current point counts as that point.
 */
int due_queue_put(struct due_queue *q, uint64_t key, uint64_t value, struct err *e);

/* Restarts an empty queue at the lowest key. */
void due_queue_restart(struct due_queue *q);

/*
 * Takes the lowest items due at `until`, in order of key, at most some ten thousand. `until` never
 * decreases. *items is valid until the next take. Later puts must not be below these items. *n is 0
 * when no more are due. Returns -1 as due_queue_put does.
 */
int due_queue_take(struct due_queue *q, uint64_t until, const struct due_item **items, size_t *n,
                   struct err *e);
