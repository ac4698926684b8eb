#pragma once

/*
 * The call stack of the calling thread as a node (stacks.h).
 *
 * Two caches make it fast. The .eh_frame rule of a return address is packed into one word and kept
 * in a table that all threads share. And a thread keeps its last walk: when a frame of the new walk
 * has the same stack position and address as one of the last, and every word that the last walk
 * read from there on is unchanged, then the rest of the stack is the same.
 */

#include "client/state.h"

/* Makes the empty table of rules. Without memory for it every rule is looked up each time. */
void unwind_begin(void);

/* Drops all rules: modules were unloaded. */
void unwind_renew(void);

/*
 * The node of the stack at `origin`, at most state.depth frames of it (REC_PC_CUT); 0: unknown.
 * `defines`: Python frames may be described (python.h).
 */
uint32_t unwind_stack(struct thread *t, const struct origin *origin, bool defines);
