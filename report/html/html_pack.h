#ifndef TIDEMARK_REPORT_HTML_HTML_PACK_H
#define TIDEMARK_REPORT_HTML_HTML_PACK_H

/*
 * Numbers for the page in few bytes: variable-length integers, compressed with zlib, as base64. For
 * report/ only; web/src/unpack.js is the reader.
 */

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/* Seven bits a byte, the lowest first. */
void pack_unsigned(struct buf *raw, uint64_t n);

/* The sign in the lowest bit. */
void pack_signed(struct buf *raw, int64_t n);

/* Appends the base64 text of the compressed bytes to `out`. -1 when memory is short. */
int pack_text(const struct buf *raw, struct buf *out, struct err *e);

#endif
