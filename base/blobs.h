#ifndef TIDEMARK_BASE_BLOBS_H
#define TIDEMARK_BASE_BLOBS_H

/*
 * Byte strings of any length, too large in sum to stay in memory: each is compressed, and gathered
 * in a buffer that goes to the spool's file when it is full. What is kept of each is a handle of 16
 * bytes; where the handles are kept is the user's business (a column, as a rule).
 */

#include <stddef.h>
#include <stdint.h>

#include "base/spool.h"

#define BLOBS_BUFFER ((size_t)1 << 20) /* bytes gathered before they are written */

struct blob {
    uint64_t place;  /* counted over all stored bytes of one struct blobs */
    uint32_t stored; /* bytes there; less than `size` when compressed */
    uint32_t size;
};

/* A buffer's worth of stored bytes that is in the file. */
struct blob_run {
    uint64_t first; /* place of its first byte */
    uint64_t at;    /* in the file */
};

struct blobs {
    struct spool *spool;
    uint8_t *buffer;
    size_t filled;
    uint64_t flushed;            /* bytes in the file */
    VEC(struct blob_run) runs;   /* 16 bytes for each BLOBS_BUFFER stored ones */
    struct ZSTD_CCtx_s *deflate; /* made when needed */
    struct ZSTD_DCtx_s *inflate;
    uint8_t *room; /* for compressed bytes */
    size_t room_size;
};

/* The spool must outlive the blobs. */
void blobs_init(struct blobs *b, struct spool *s);
void blobs_release(struct blobs *b);

/* Forgets all blobs, keeping the store usable. Their room in the file is not used again. */
void blobs_clear(struct blobs *b);

/* Stores `n` bytes. -1 with `e` filled when memory or disk is short. */
int blobs_add(struct blobs *b, const void *bytes, uint32_t n, struct blob *blob, struct err *e);

/* The blob's `size` bytes to `out`. -1 with `e` filled when memory or the file fails. */
int blobs_get(struct blobs *b, const struct blob *blob, void *out, struct err *e);

#endif
