#pragma once

/*
 * The contents of a file that is plain or compressed with gzip or zstd, detected by its first
 * bytes. Consecutive gzip members or zstd frames form one text.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zlib.h>
#include <zstd.h>

#include "base/err.h"
#include "base/view.h"

enum source_kind {
    SOURCE_PLAIN,
    SOURCE_GZIP,
    SOURCE_ZSTD,
};

#define SOURCE_BLOCK ((size_t)64 << 10)

struct import_source {
    int fd; /* -1: the bytes are in memory */
    enum source_kind kind;
    bool at_end; /* of the file */
    bool inside; /* within a member or frame */
    struct view file;
    uint8_t *in;      /* compressed input */
    uint8_t *block;   /* plain output */
    size_t block_len; /* not delivered yet */
    size_t in_len, in_at;
    uint64_t given; /* plain bytes delivered */
    z_stream gzip;
    bool gzip_ready;
    ZSTD_DStream *zstd;
    /* Called with the bytes of the file that were read. NULL: never called. */
    void (*reading)(void *ctx, size_t bytes);
    void *reading_ctx;
};

/*
 * Opens a file; "-" is standard input. ERR_INPUT when it cannot be opened or read. Errors of the
 * other calls do not name the file.
 */
int import_source_open(struct import_source *s, const char *path, struct err *e);

/* The same for bytes in memory, which must outlive the source. */
int import_source_memory(struct import_source *s, struct view bytes, struct err *e);
void import_source_close(struct import_source *s);

/*
 * The next plain bytes: SOURCE_BLOCK of them, fewer only at the end, none after it. Valid until the
 * next call. A file that ends within a member or frame is an error.
 */
int import_source_next(struct import_source *s, struct view *bytes, struct err *e);

/* Returns the bytes that the next import_source_next will return, without consuming them. */
int import_source_peek(struct import_source *s, struct view *bytes, struct err *e);
