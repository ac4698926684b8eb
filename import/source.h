#ifndef TIDEMARK_IMPORT_SOURCE_H
#define TIDEMARK_IMPORT_SOURCE_H

/*
 * The bytes of a file, whether it is plain or compressed with gzip or zstd, which its first bytes
 * tell. Members of gzip and frames of zstd that follow one another are one text.
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
    bool inside; /* a member or frame has begun and not ended */
    struct view file;
    uint8_t *in;      /* compressed, as the file has them */
    uint8_t *block;   /* plain */
    size_t block_len; /* not yet given out */
    size_t in_len, in_at;
    uint64_t given; /* plain bytes */
    z_stream gzip;
    bool gzip_ready;
    ZSTD_DStream *zstd;
};

/* "-" is standard input. ERR_INPUT when it cannot be opened or read. Errors of the other calls do
 * not name the file. */
int import_source_open(struct import_source *s, const char *path, struct err *e);

/* The same for bytes in memory, which must outlive the source. */
int import_source_memory(struct import_source *s, struct view bytes, struct err *e);
void import_source_close(struct import_source *s);

/*
 * The next plain bytes, at most SOURCE_BLOCK of them and fewer only at the end; empty there. Valid
 * until the next call. A file that ends within a member or frame is an error.
 */
int import_source_next(struct import_source *s, struct view *bytes, struct err *e);

/* What import_source_next will give, without taking it. */
int import_source_peek(struct import_source *s, struct view *bytes, struct err *e);

#endif
