#pragma once

/*
 * The addresses of the live blocks of each pool, their ages, and their fragmentation over time: one
 * live block keeps its whole page in use. Built in one sweep with the live blocks of each pool in
 * an interval tree.
 */

#include <stdint.h>

#include "analysis/figures/selection.h"
#include "base/err.h"
#include "base/vec.h"

#define MAP_PAGE UINT64_C(4096)

/* A cell of address space with live bytes. */
struct map_cell {
    uint64_t used; /* bytes covered by live blocks */
    uint64_t age;  /* ns since their allocation, the mean over these bytes */
};

/* A line of addresses: `columns` cells. Lines without any live block are left out. */
struct map_line {
    uint64_t address;
    struct map_cell *cells;
};

/* The state of a pool at one time. */
struct map_sample {
    int64_t time; /* ns; as of the end of it */
    uint64_t blocks;
    uint64_t bytes;        /* of all blocks */
    uint64_t covered;      /* addresses in at least one block */
    uint64_t pages;        /* pages of MAP_PAGE with at least one covered address */
    uint64_t holes;        /* gaps between blocks that share or adjoin a page */
    uint64_t hole_bytes;   /* in them */
    uint64_t largest_hole; /* of them */
    uint64_t low, high;    /* lowest and highest covered address */
};

struct map_pool {
    struct view name;
    VEC(struct map_sample) samples; /* the last one is at the time of the lines */
    uint64_t cell;                  /* bytes of a cell, a power of two */
    VEC(struct map_line) lines;     /* in order of address */
};

struct memory_map {
    int64_t time; /* ns; of the lines */
    unsigned columns;
    VEC(struct map_pool) pools;
};

struct map_options {
    unsigned columns; /* cells in a line; a power of two, 0: no lines */
    unsigned lines;   /* of each pool, at most */
    unsigned samples; /* evenly spaced, at least 1 */
    int64_t begin;    /* ns; time of the first sample */
};

/* `m` need not be initialised. The selection must outlive it. */
int memory_map_build(struct memory_map *m, struct selection *s, const struct map_options *options,
                     struct err *e);
void memory_map_release(struct memory_map *m);
