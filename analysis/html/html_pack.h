#pragma once

/*
 * Packs numbers for the page: variable-length integers, compressed with zlib, in base 85.
 * web/src/unpack.js reads them.
 */

#include <stdint.h>

#include "analysis/html/html_data.h"
#include "base/buf.h"
#include "base/err.h"

/* Seven bits per byte, lowest first. */
void pack_unsigned(struct buf *raw, uint64_t n);

/* As pack_unsigned, with the sign in the lowest bit. */
void pack_signed(struct buf *raw, int64_t n);

/* Appends the compressed bytes (fewer than 4 GiB) to `out`, in base 85. -1 if memory is short. */
int pack_text(const struct buf *raw, struct buf *out, struct err *e);

/*
 * Groups similar data, which compresses well: the number of cells of each step; the keys as
 * differences; then the values, one kind after the other.
 */
void pack_cells(const struct page_cells *c, struct buf *raw);

/*
 * The cells of keys. Frees are stored as their difference from the allocations, and bytes as theirs
 * from what as many blocks have, of the size that the key's blocks have on average, or those of its
 * site: that of the newest step with allocations, rounded down.
 */
void pack_figures(const struct page_data *d, struct buf *raw);

/*
 * Nodes, call stacks and keys, in the order of page_data_arrange. web/src/model.js (readTree) shows
 * the layout.
 */
void pack_tree(const struct page_data *d, struct buf *raw);

/* Rows as differences, then the parts, numbers and bytes of all pairs. */
void pack_lives(const struct page_lives *l, struct buf *raw);

/*
 * The blocks of the list that hold addresses: the piece of the map in which each begins, as
 * differences; the offset in it; sizes; the slot of the allocation; 0, or 1 and the slots until the
 * free; sites. Sets *n to their number.
 */
void pack_blocks(const struct page_data *d, struct buf *raw, size_t *n);
