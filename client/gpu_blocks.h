#ifndef TIDEMARK_CLIENT_GPU_BLOCKS_H
#define TIDEMARK_CLIENT_GPU_BLOCKS_H

/* Which pool a block of device memory belongs to: at its free another device may be the current
 * one. */

#include <stdbool.h>
#include <stdint.h>

/* False: there is no room, and the block is not to be recorded. */
bool gpu_blocks_add(uint64_t address, uint32_t pool);

/* Its pool; 0: it is not known. */
uint32_t gpu_blocks_remove(uint64_t address);

#endif
