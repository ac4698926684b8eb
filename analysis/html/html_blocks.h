#pragma once

/*
 * Single blocks for the page's memory map, as many as there is room for: those live at the end
 * first, then the largest ones, then the earlier ones of the history.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/vec.h"

struct page_block {
    uint32_t pool;
    uint32_t callstack; /* of the trace */
    uint32_t site;      /* of the page, when sites were chosen */
    uint64_t ptr, size;
    int64_t time, freed; /* ns; freed: INT64_MAX if live at the end */
};

struct page_blocks {
    size_t max;
    uint64_t count;              /* blocks offered */
    VEC(struct page_block) list; /* a heap, with the least important one first, until finished */
};

/* Zero-initialise, and set `max`. */
void page_blocks_release(struct page_blocks *b);

int page_blocks_offer(struct page_blocks *b, const struct page_block *block, struct err *e);

/* Orders the list by pool, address and time. */
void page_blocks_finish(struct page_blocks *b);
