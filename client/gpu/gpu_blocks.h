#ifndef TIDEMARK_CLIENT_GPU_BLOCKS_H
#define TIDEMARK_CLIENT_GPU_BLOCKS_H

/* The pool of each block of device memory: at its free another device may be the current one. */

#include <stdbool.h>
#include <stdint.h>

/* False: there is no room, and the block is not to be recorded. */
bool gpu_blocks_add(uint64_t address, uint32_t pool);

/* Returns its pool; 0: unknown. */
uint32_t gpu_blocks_remove(uint64_t address);

#endif
