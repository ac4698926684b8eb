#pragma once

/*
 * The call stacks of a recording: a tree of nodes that the library writes as it goes, and the
 * trace's call stack of each node that was needed.
 */

#include <stdint.h>

#include "base/err.h"
#include "base/vec.h"
#include "run/recording/recording_chunks.h"

struct stack_node {
    uint64_t pc; /* with the epoch in its upper 16 bits; 0: not written yet */
    uint32_t parent;
    uint32_t callstack; /* 0: not needed yet */
};

/* A chunk of nodes to which the library may still add. */
struct node_chunk {
    struct chunk chunk;
    uint32_t read; /* leading nodes that were read */
};

struct nodes {
    VEC(struct stack_node) list; /* by number */
    VEC(struct node_chunk) open;
    uint64_t capacity; /* sum over all chunks; numbers have no gaps */
};

void nodes_release(struct nodes *n);

/* Adds a chunk. */
int nodes_add(struct nodes *n, const struct chunk *c, struct err *e);

/* Reads the nodes written since. `last`: no more will be written. */
int nodes_refresh(struct nodes *n, const struct chunks *file, bool last, struct err *e);

/* The node, or NULL when that number does not exist (yet). */
static inline struct stack_node *nodes_get(const struct nodes *n, uint64_t number)
{
    struct stack_node *node = number < n->list.len ? &n->list.at[number] : NULL;
    return node && node->pc ? node : NULL;
}
