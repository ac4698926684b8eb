#ifndef TIDEMARK_CLIENT_STACKS_H
#define TIDEMARK_CLIENT_STACKS_H

/*
 * Call stacks as numbers: each is a node of (caller's node, program counter), and equal ones are
 * the same node. The nodes lie in chunks of the recording itself (record.h), so they are in memory
 * once and need no record. Any number of threads may ask at the same time; nobody waits.
 */

#include "client/state.h"

/* Makes the empty table. Returns 0, -1: no memory, all stacks are then unknown. */
int stacks_begin(void);

/* In a child of fork: lets go of the parent's table. */
void stacks_forget(void);

/* The same while a hook may be using it: the table stays, but holds nothing of the parent's. */
void stacks_blank(void);

/* From here on equal stacks get new numbers, for addresses may belong to other modules now. */
void stacks_renew(void);

/*
 * The node of a frame at `pc`, an address with its epoch (record.h), called from `parent`, which is
 * a node with REC_NODE_EXACT if the frame's pc is no return address. 0: no room.
 */
uint32_t stacks_node(uint32_t parent, uint64_t pc);

#endif
