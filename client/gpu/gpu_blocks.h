#pragma once

/*
 * The live blocks of CUDA's memory: at a free another device may be the current one, and a context
 * that ends takes its blocks along.
 */

#include <stdbool.h>
#include <stdint.h>

struct gpu_block {
    uint64_t address, size;
    const void *context; /* NULL: unknown */
    uint32_t pool;
};

/* False: there is no room, and the block is not to be recorded. */
bool gpu_blocks_add(const struct gpu_block *block);

/* False: unknown. */
bool gpu_blocks_remove(uint64_t address, struct gpu_block *block);

/* Removes a block of the context. *at: where to go on, 0 at first. False: there is no other. */
bool gpu_blocks_remove_one(const void *context, uint32_t *at, struct gpu_block *block);
