#pragma once

/*
 * Byte strings by key, stored compressed and file-backed (base/blobs.h): machine code of functions,
 * texts of source files. Only their keys and positions are resident.
 */

#include <stdint.h>

#include "base/blobs.h"
#include "base/err.h"
#include "base/map.h"
#include "base/spool.h"
#include "base/vec.h"
#include "base/view.h"

struct keyed_blob {
    uint64_t key;
    struct blob blob;
};

struct keyed_blobs {
    struct blobs blobs;
    VEC(struct keyed_blob) list;
    struct map numbers; /* key → index in list */
};

void keyed_blobs_init(struct keyed_blobs *b, struct spool *spool);
void keyed_blobs_release(struct keyed_blobs *b);

/*
 * Adds a blob of at most 2^32 - 1 bytes; the first blob of a key counts. -1 when memory or disk is
 * short.
 */
int keyed_blobs_add(struct keyed_blobs *b, uint64_t key, struct view bytes, struct err *e);

/* Reads all blobs in insertion order. */
struct keyed_blobs_reader {
    struct keyed_blobs *blobs;
    size_t next; /* index in list */
    char *buf;
    size_t cap;
};

void keyed_blobs_reader_init(struct keyed_blobs_reader *r, struct keyed_blobs *b);
void keyed_blobs_reader_release(struct keyed_blobs_reader *r);

/*
 * Returns 1 with the next blob, whose bytes are valid until the next call; 0 at the end; -1 on an
 * error.
 */
int keyed_blobs_next(struct keyed_blobs_reader *r, uint64_t *key, struct view *bytes,
                     struct err *e);
