#pragma once

/*
 * Parquet's hybrid of run-length encoding and bit-packing (Encodings.md, "RLE"). For report/ only.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/cursor.h"

/* Appends `n` values of `width` bits, 1 to 32. */
void parquet_rle(struct buf *out, const uint32_t *values, size_t n, unsigned width);

/* Reads exactly `n` values of `width` bits, 1 to 32. False if the bytes are not that. */
bool parquet_rle_read(struct cursor *c, uint32_t *values, size_t n, unsigned width);
