#pragma once

/*
 * Live blocks of a recorded kind that are not in the recording: allocated during a pause, or
 * dropped because the buffer was full. Their frees must be ignored, once each, or they would be
 * frees of unknown blocks.
 *
 * A hash table of whole cache lines with chains. It is lock-free, so signal handlers may use it,
 * and never drops an entry. An address is in it at most once, because the program orders a block's
 * allocation before its free.
 */

#include "client/state.h"

/* True from the first block on; hooks check this first. */
static inline bool skipped_any(void)
{
    return client_unlikely(atomic_load_explicit(&state.skips, memory_order_relaxed));
}

/* Adds a block that is not recorded. If memory is short, this is a counted loss. */
void skipped_add(uint32_t pool, uint64_t address, uint64_t size);

/* True when the block was in the set; removes it. */
bool skipped_remove(uint32_t pool, uint64_t address);

/* In a child of fork. */
void skipped_forget(void);
