#ifndef TIDEMARK_BASE_DUE_QUEUE_H
#define TIDEMARK_BASE_DUE_QUEUE_H

/*
 * Items that become due in order of a 64-bit key, for uses that take everything due up to some
 * point at once, and where no key is put in that is below that point. As in a radix heap
 * (base/radix_heap.h) items wait in buckets by the highest digit in which they differ from the
 * point that was reached, but digits have 4 bits, and a bucket is taken as a whole and sorted: an
 * item moves two or three times in all, mostly beside its neighbours.
 *
 * An item takes its 16 bytes and a 64th of that, plus at most 256 KiB for all. With a bound, items
 * beyond it wait in a temporary file (base/due_file.h): whole buckets go there, what is due last
 * first, and come back when their turn has come. Items of equal keys come out in no certain order.
 * Zero-initialise to get an empty one.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/due_file.h"
#include "base/err.h"
#include "base/vec.h"

#define DUE_DIGIT 4 /* bits */
#define DUE_LEVELS (64 / DUE_DIGIT)
#define DUE_DIGITS (1u << DUE_DIGIT)

/* Bytes that a queue may always have: with less it could do little but move items about. */
#define DUE_BOUND_LEAST ((size_t)512 << 10)

struct due_chunk;

struct due_bucket {
    struct due_item *next, *limit; /* room in the newest chunk; NULL without one */
    struct due_chunk *chunks;      /* the newest first: only that one has room */
    size_t before;                 /* items in those before it, and in the file */
    size_t filed;                  /* of them, in the file */
    uint32_t extents;              /* list */
};

struct due_queue {
    struct due_bucket buckets[DUE_LEVELS][DUE_DIGITS];
    uint16_t occupied[DUE_LEVELS]; /* a bit for each bucket */
    uint32_t levels;               /* a bit for each level that has any */
    uint64_t last;                 /* the point that was reached */
    unsigned
        loose; /* bits at the low end of keys that need not be in order: the owner may set it */
    size_t count;
    size_t bound; /* bytes for items in memory, 0: no bound; the owner may set it */
    size_t used;  /* chunks */
    struct due_file file;
    struct due_item *coming, *going; /* an extent each, once there was one */
    struct due_chunk *vacant;
    VEC(void *) slabs; /* of chunks */
    VEC(struct due_item) run, room;
};

void due_queue_release(struct due_queue *q);

/*
 * -1 with `e` when memory is short or the file cannot be written: then the queue is good for
 * nothing but its release. A key below the point that was reached counts as that.
 */
int due_queue_put(struct due_queue *q, uint64_t key, uint64_t value, struct err *e);

/* Begins anew with the lowest of keys. The queue is empty. */
void due_queue_restart(struct due_queue *q);

/*
 * Takes some of the items that are due at `until`, which is at least what it was before: the
 * lowest, in order of key, at most some ten thousand. They are at *items until the next call.
 * Nothing that is put in later may be below them. *n is 0 when no more are due. -1 as for
 * due_queue_put.
 */
int due_queue_take(struct due_queue *q, uint64_t until, const struct due_item **items, size_t *n,
                   struct err *e);

#endif
