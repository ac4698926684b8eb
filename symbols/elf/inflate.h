#ifndef TIDEMARK_SYMBOLS_ELF_INFLATE_H
#define TIDEMARK_SYMBOLS_ELF_INFLATE_H

/*
 * Inflates parts of ELF files. The result lies in pages that get memory only as bytes arrive, so a
 * stated size that is a lie costs address space, not memory.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/view.h"

enum inflate_method { INFLATE_ZLIB, INFLATE_ZSTD };

struct inflated {
    uint8_t *bytes; /* NULL: nothing; released with inflated_release */
    size_t size;
    size_t mapped;
};

void inflated_release(struct inflated *i);

/* Inflates `packed`, which must give exactly `size` bytes. ERR_INPUT when it does not. */
int inflate_exactly(struct inflated *out, enum inflate_method method, struct view packed,
                    uint64_t size, struct err *e);

/* Inflates an .xz stream of a size that is not stated, of `limit` bytes at most. */
int inflate_xz(struct inflated *out, struct view packed, uint64_t limit, struct err *e);

#endif
