#pragma once

/*
 * When freed blocks were allocated: for each row (a pool and a site) and each pair of parts of
 * time, the blocks that were allocated in the first and freed in the second. So the page
 * knows which of the blocks that a range of time frees are older than the range. If there are too
 * many pairs, parts become twice as long.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/map.h"
#include "base/vec.h"

#define PAGE_LIVES_PARTS 64u /* at most; a power of two */

struct page_life {
    uint32_t row;
    uint8_t born, freed; /* parts */
    uint64_t count, bytes;
};

struct page_lives {
    uint32_t slots; /* of the whole time */
    uint32_t parts;
    size_t max; /* pairs at the end, while there are at least two parts */
    struct map numbers;
    VEC(struct page_life) list;
    VEC(uint32_t) recent; /* by row: its newest pair, the likely one */
};

/* `slots` is a multiple of PAGE_LIVES_PARTS. */
void page_lives_init(struct page_lives *l, uint32_t slots, size_t max);
void page_lives_release(struct page_lives *l);

/* Counts a block that was allocated and freed in these slots. */
int page_lives_add(struct page_lives *l, uint32_t row, uint32_t born, uint32_t freed, uint64_t size,
                   struct err *e);

/* Gives what the rows from `rows` on have to the first `pools` rows: row n to n % pools. */
int page_lives_combine(struct page_lives *l, uint32_t rows, uint32_t pools, struct err *e);

/* Keeps `max`, and orders the list by row, born and freed; nothing may be added after that. */
int page_lives_finish(struct page_lives *l, struct err *e);
