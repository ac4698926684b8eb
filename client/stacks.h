#pragma once

/*
 * Numbers call stacks: each is a node of (caller's node, program counter), and equal ones share a
 * node. The nodes are in chunks of the recording itself (recording_format.h), so they are in memory
 * once and need no record. Any number of threads may call at the same time, without blocking.
 */

#include "client/state.h"

/* Makes the empty table. Returns 0, or -1: no memory; all stacks are then unknown. */
int stacks_begin(void);

/* In a child of fork: frees the parent's table. */
void stacks_forget(void);

/* The same while a hook may be using it: the table stays but is emptied. */
void stacks_blank(void);

/* From now on equal stacks get new numbers, since addresses may belong to other modules. */
void stacks_renew(void);

/*
 * The node of a frame at `pc`, an address with its epoch (recording_format.h), called from
 * `parent`. `parent` has REC_NODE_EXACT if the frame's pc is not a return address. 0: no room.
 */
uint32_t stacks_node(uint32_t parent, uint64_t pc);
