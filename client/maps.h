#pragma once

/*
 * Mappings that the program made (--pools mmap), as blocks of a separate pool.
 *
 * A program may unmap a part of a mapping, or several at once, or replace one by another. Records
 * know whole blocks only, so the live blocks are kept here: remaining parts become blocks
 * themselves. As in all hooks, a range is released before the real call and added after it.
 */

#include "client/state.h"

#define MAPS_POOL 1u

/* True when the pool is requested and this process records. */
bool maps_wanted(void);

/* Adds a mapping; `how` is REC_HOW_MMAP, _MREMAP or _BRK. */
void maps_add(uint64_t address, uint64_t size, unsigned how, const struct origin *origin);

/* Removes a range. Returns the call stack of the block at `address`, 0: unknown. */
uint32_t maps_release(uint64_t address, uint64_t size, unsigned how);

/* The call failed, and the range is unchanged: it becomes one block with this stack. */
void maps_restore(uint64_t address, uint64_t size, unsigned how, uint32_t stack);

/* In a child of fork: the parent's mappings are not in its recording. */
void maps_forget(void);

/* Call it before a process is attached to again. */
void maps_clear(void);
