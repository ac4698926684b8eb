#ifndef TIDEMARK_RUN_RECORDING_RECORDING_NODES_H
#define TIDEMARK_RUN_RECORDING_RECORDING_NODES_H

/*
 * The call stacks of a recording: a tree of nodes that the library writes while it goes on, and for
 * each node the call stack that the trace has for it, once one was asked for.
 */

#include <stdint.h>

#include "base/err.h"
#include "base/vec.h"
#include "run/recording/recording_chunks.h"

struct stack_node {
    uint64_t pc; /* with the epoch in its upper 16 bits; 0: not written yet */
    uint32_t parent;
    uint32_t callstack; /* 0: not asked for yet */
};

/* A chunk of nodes that may still get some. */
struct node_chunk {
    struct chunk chunk;
    uint32_t read; /* nodes in front that are there */
};

struct nodes {
    VEC(struct stack_node) list; /* by number */
    VEC(struct node_chunk) open;
    uint64_t capacity; /* of all chunks: numbers are given without holes */
};

void nodes_release(struct nodes *n);

/* Takes note of a chunk. */
int nodes_add(struct nodes *n, const struct chunk *c, struct err *e);

/* Reads what was written since. `last`: nothing will be written any more. */
int nodes_refresh(struct nodes *n, const struct chunks *file, bool last, struct err *e);

/* The node, or NULL when there is none of that number (yet). */
static inline struct stack_node *nodes_get(const struct nodes *n, uint64_t number)
{
    struct stack_node *node = number < n->list.len ? &n->list.at[number] : NULL;
    return node && node->pc ? node : NULL;
}

#endif
