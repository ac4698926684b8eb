#include "run/recording/recording_nodes.h"

#include <stdlib.h>
#include <string.h>

/* Nodes read at a time. */
#define PIECE 1024u

void nodes_release(struct nodes *n)
{
    vec_release(&n->list);
    vec_release(&n->open);
}

int nodes_add(struct nodes *n, const struct chunk *c, struct err *e)
{
    n->capacity += c->capacity / sizeof(struct rec_node);
    return vec_push(&n->open, (struct node_chunk){.chunk = *c}) ? 0
                                                                : err_no_memory(e, "call stacks");
}

/* Makes room for the numbers below `end`. */
static int grow(struct nodes *n, uint64_t end, struct err *e)
{
    size_t len = n->list.len;
    if (end <= len)
        return 0;
    if (!vec_reserve(&n->list, (size_t)end))
        return err_no_memory(e, "call stacks");
    memset(n->list.at + len, 0, ((size_t)end - len) * sizeof *n->list.at);
    n->list.len = (size_t)end;
    return 0;
}

/*
 * Takes `count` nodes from number `first` on. Returns how many are written; *front: how many before
 * the first unwritten one.
 */
static uint32_t take(struct nodes *n, uint64_t first, const struct rec_node *from, uint32_t count,
                     uint32_t *front)
{
    uint32_t there = 0;
    *front = count;
    for (uint32_t i = 0; i < count; i++) {
        struct stack_node *to = &n->list.at[first + i];
        uint64_t pc = from[i].pc;
        there += pc != 0;
        if (pc == 0 && *front == count)
            *front = i;
        if (pc == 0 || to->pc)
            continue;
        to->pc = pc;
        to->parent = from[i].parent;
    }
    return there;
}

/* Written nodes come first, except for a few that are being written. */
static int refresh(struct nodes *n, struct node_chunk *c, const struct chunks *file, struct err *e)
{
    struct rec_node piece[PIECE];
    uint32_t all = c->chunk.capacity / (uint32_t)sizeof *piece;
    bool whole = true;
    for (uint32_t at = c->read; at < all;) {
        uint32_t want = all - at < PIECE ? all - at : PIECE, front;
        size_t got =
            chunks_read(file, &c->chunk, at * (uint32_t)sizeof *piece, piece, want * sizeof *piece);
        uint32_t count = (uint32_t)(got / sizeof *piece);
        uint64_t first = (uint64_t)c->chunk.first_node + at;
        if (count == 0 || first + count > n->capacity + 1)
            return 0;
        if (grow(n, first + count, e) != 0)
            return -1;
        if (take(n, first, piece, count, &front) == 0)
            return 0;
        if (whole)
            c->read = at + front;
        whole = whole && front == count;
        at += count;
    }
    return 0;
}

int nodes_refresh(struct nodes *n, const struct chunks *file, bool last, struct err *e)
{
    size_t kept = 0;
    for (size_t i = 0; i < n->open.len; i++) {
        struct node_chunk *c = &n->open.at[i];
        if (refresh(n, c, file, e) != 0)
            return -1;
        if (!last && c->read < c->chunk.capacity / sizeof(struct rec_node))
            n->open.at[kept++] = *c;
    }
    n->open.len = kept;
    return 0;
}
