#pragma once

/*
 * A bound on the memory of a process that reads traces: --memory. The kernel refuses heap and
 * private mappings beyond it (RLIMIT_DATA), so it covers every allocation of every question: one
 * that does not fit fails before the memory is taken. Pages of mapped files are not part of it: the
 * kernel writes them out when it needs their memory.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Allowed in any case: stacks of threads, buffers, and windows of the decompressor. */
#define MEMORY_BOUND_LEAST ((uint64_t)64 << 20)

/*
 * Sets the bound permanently, unless a lower one is set already; 0: none. Call it after starting
 * processes that must not inherit it.
 */
void memory_bound_set(uint64_t bytes);

/*
 * What a trace may keep in memory: half of `bytes`, as given to memory_bound_set; 0: half of what
 * the kernel allows this process; in bytes. 0: there is no bound.
 */
size_t memory_bound_share(uint64_t bytes);

/*
 * Adds to an error for lack of memory that --memory, which set the bound to `bytes`, allows more.
 * No effect on other errors, without a bound, and if a lower one was set already.
 */
void memory_bound_explain(uint64_t bytes, struct err *e);
