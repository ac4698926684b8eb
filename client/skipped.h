#ifndef TIDEMARK_CLIENT_SKIPPED_H
#define TIDEMARK_CLIENT_SKIPPED_H

/*
 * Live blocks that are not in the recording although their kind is: allocated while it was paused,
 * or dropped because the buffer was full. Their frees must be swallowed, each once, or they would
 * be frees of blocks that nobody knows.
 *
 * A hash table of whole cache lines with chains behind them. It has no lock, so signal handlers may
 * use it, and it forgets nothing. An address is in it at most once in its life, because the program
 * itself puts its allocation before its free.
 */

#include "client/state.h"

/* True from the first block on; hooks ask nothing before. */
static inline bool skipped_any(void)
{
    return client_unlikely(atomic_load_explicit(&state.skips, memory_order_relaxed));
}

/* A block that is not to be recorded. Without memory for it that is a counted loss. */
void skipped_add(uint32_t pool, uint64_t address, uint64_t size);

/* True when the block was in the set; it is no more. */
bool skipped_remove(uint32_t pool, uint64_t address);

/* In a child of fork. */
void skipped_forget(void);

#endif
