#pragma once

/*
 * Inflates parts of ELF files. The result's pages get memory only as bytes arrive, so a false
 * stated size costs address space, not memory.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/view.h"

enum inflate_method { INFLATE_ZLIB, INFLATE_ZSTD };

struct inflated {
    uint8_t *bytes; /* NULL: empty; freed by inflated_release */
    size_t size;
    size_t mapped;
};

void inflated_release(struct inflated *i);

/* Inflates `packed`. Fails with ERR_INPUT unless it gives exactly `size` bytes. */
int inflate_exactly(struct inflated *out, enum inflate_method method, struct view packed,
                    uint64_t size, struct err *e);

/* Inflates an .xz stream of unknown size, of at most `limit` bytes. */
int inflate_xz(struct inflated *out, struct view packed, uint64_t limit, struct err *e);
