#ifndef TIDEMARK_BASE_MEMORY_BOUND_H
#define TIDEMARK_BASE_MEMORY_BOUND_H

/*
 * A bound on the memory of a process that reads traces: --memory. The kernel refuses heap and
 * private mappings beyond it (RLIMIT_DATA), so it covers every allocation of every question: one
 * that does not fit fails before the memory is taken, and err_no_memory names the bound. Pages of
 * mapped files are not part of it: the kernel writes them out when it needs their memory.
 */

#include <stdint.h>

/* Allowed in any case: stacks of threads, buffers, and windows of the decompressor. */
#define MEMORY_BOUND_LEAST ((uint64_t)64 << 20)

/*
 * Sets the bound permanently; 0: none. Later calls have no effect. Call it after starting processes
 * that must not inherit it.
 */
void memory_bound_set(uint64_t bytes);

/* The bound, for shares of it; 0: none. */
uint64_t memory_bound(void);

/* What the kernel allows because of the bound: MEMORY_BOUND_LEAST or more; 0: none. */
uint64_t memory_bound_allows(void);

#endif
