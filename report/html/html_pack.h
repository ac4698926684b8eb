#ifndef TIDEMARK_REPORT_HTML_HTML_PACK_H
#define TIDEMARK_REPORT_HTML_HTML_PACK_H

/*
 * Packs numbers for the page: variable-length integers, compressed with zlib, as base64.
 * web/src/unpack.js reads them. For report/ only.
 */

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/* Seven bits per byte, lowest first. */
void pack_unsigned(struct buf *raw, uint64_t n);

/* As pack_unsigned, with the sign in the lowest bit. */
void pack_signed(struct buf *raw, int64_t n);

/* Appends the base64 text of the compressed bytes to `out`. -1 if memory is short. */
int pack_text(const struct buf *raw, struct buf *out, struct err *e);

#endif
