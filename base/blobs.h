#pragma once

/*
 * Byte strings of any length whose total may exceed memory. Each is compressed and appended to a
 * buffer, which goes to the spool's file when it is full. The caller keeps a handle of 16 bytes for
 * each string, usually in a column.
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

/* A buffer of stored bytes that has been written to the file. */
struct blob_run {
    uint64_t first; /* `place` of its first byte */
    uint64_t at;    /* offset in the file */
};

struct blobs {
    struct spool *spool;
    uint8_t *buffer;
    size_t filled;
    uint64_t flushed;            /* bytes in the file */
    VEC(struct blob_run) runs;   /* 16 bytes per BLOBS_BUFFER stored bytes */
    struct ZSTD_CCtx_s *deflate; /* created on first use */
    struct ZSTD_DCtx_s *inflate;
    uint8_t *room; /* scratch for compressed bytes */
    size_t room_size;
};

/* The spool must outlive the blobs. */
void blobs_init(struct blobs *b, struct spool *s);
void blobs_release(struct blobs *b);

/* Drops all blobs and keeps the store usable. Their space in the file is not reused. */
void blobs_clear(struct blobs *b);

/* Stores `n` bytes. Returns -1 with `e` when memory or disk is short. */
int blobs_add(struct blobs *b, const void *bytes, uint32_t n, struct blob *blob, struct err *e);

/*
 * Copies the blob's `size` bytes to `out`. Returns -1 with `e` when memory is short or the file
 * fails.
 */
int blobs_get(struct blobs *b, const struct blob *blob, void *out, struct err *e);
