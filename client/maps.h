#ifndef TIDEMARK_CLIENT_MAPS_H
#define TIDEMARK_CLIENT_MAPS_H

/*
 * Mappings that the program made (--pools mmap), as blocks of a pool of their own.
 *
 * A mapping may be given back in parts, or several at once, or be replaced by another. The records
 * know whole blocks only, so what is live is kept here: parts that stay become blocks themselves.
 * The order is that of all hooks: a range is released before the real call, added after it.
 */

#include "client/state.h"

#define MAPS_POOL 1u

/* True when the pool is asked for and this process records. */
bool maps_wanted(void);

/* A new mapping; `how` is REC_HOW_MMAP, _MREMAP or _BRK. */
void maps_add(uint64_t address, uint64_t size, unsigned how, const struct origin *origin);

/* What the range is about to lose. Returns the call stack of the block at `address`, 0: unknown. */
uint32_t maps_release(uint64_t address, uint64_t size, unsigned how);

/* The call failed, and the range is as it was. It becomes one block with the stack given. */
void maps_restore(uint64_t address, uint64_t size, unsigned how, uint32_t stack);

/* In a child of fork: its recording knows nothing of what the parent mapped. */
void maps_forget(void);

/* Before a process is attached to again. */
void maps_clear(void);

#endif
