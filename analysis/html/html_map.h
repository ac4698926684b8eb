#pragma once

/*
 * The memory map of the page: for each pool, the pieces of the address space that ever held its
 * blocks. All pieces have the same size, a power of two that grows until there are few enough.
 */

#include <stdint.h>

#include "base/err.h"
#include "base/map.h"
#include "base/vec.h"

#define PAGE_MAP_PIECES 2048u
#define PAGE_MAP_SHIFT_MIN 12u
#define PAGE_MAP_POOLS 64u /* pool numbers are below this */

struct page_piece {
    uint32_t pool;
    uint64_t start; /* address */
};

/*
 * Threads and sites with a separate owner number in the map, the most important ones; one more: all
 * others.
 */
#define PAGE_MAP_OWNERS 8u
#define PAGE_MAP_NOBODY (PAGE_MAP_OWNERS + 1) /* nothing was allocated */

enum page_map_kind { PAGE_MAP_THREADS, PAGE_MAP_SITES, PAGE_MAP_KINDS };

/* The allocations of each owner in a piece, over the whole time. */
struct page_owners {
    uint64_t bytes[PAGE_MAP_KINDS][PAGE_MAP_OWNERS + 1]; /* by blocks that fill it partly */
    /* Blocks that fill all pieces from here on, minus those until here. */
    int64_t cover[PAGE_MAP_KINDS][PAGE_MAP_OWNERS + 1];
};

/* Recently added ranges, which need not be added again. */
#define PAGE_MAP_RECENT 256u

struct page_map {
    unsigned shift;  /* a piece has 2^shift bytes */
    struct map seen; /* pool and piece → number, once settled */
    VEC(struct page_piece) pieces;
    struct page_owners *owners;       /* one for each piece, and one after them */
    uint64_t recent[PAGE_MAP_RECENT]; /* 0 = none */
};

/* The position of a block: `count` adjacent pieces in the list. */
struct page_span {
    uint32_t first, count;
    uint64_t head; /* bytes in the first piece */
    uint64_t tail; /* bytes in the last one, if there are several */
};

void page_map_init(struct page_map *m);
void page_map_release(struct page_map *m);

/* First, every block is added … */
int page_map_touch(struct page_map *m, uint32_t pool, uint64_t ptr, uint64_t size, struct err *e);

/* … then the pieces are listed by pool and address, without owners (again), … */
int page_map_settle(struct page_map *m, struct err *e);

/* … and blocks are looked up. A block that was not added has no pieces. */
struct page_span page_map_find(const struct page_map *m, uint32_t pool, uint64_t ptr,
                               uint64_t size);

/* Counts a block for these owners: numbers up to PAGE_MAP_OWNERS. */
void page_map_count(struct page_map *m, const struct page_span *at,
                    const unsigned owner[PAGE_MAP_KINDS]);

/*
 * Fills `most` with the owner that allocated most bytes in each piece; the lowest number of equal
 * ones.
 */
void page_map_owners(const struct page_map *m, enum page_map_kind kind, uint8_t *most);
