#ifndef TIDEMARK_ANALYSIS_QUESTIONS_BROWSER_H
#define TIDEMARK_ANALYSIS_QUESTIONS_BROWSER_H

/*
 * The state of the interactive tree view: open nodes, visible rows, cursor. Nodes are identified by
 * the names on their path, so the state survives when the tree is rebuilt, from more events or in
 * another order.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/questions/tree.h"
#include "base/map.h"
#include "base/vec.h"

struct browser_row {
    uint32_t node;
    bool open;
    bool has_children; /* visible ones */
};

struct browser {
    const struct tree *tree;
    bool only_live; /* hide nodes with nothing live */
    VEC(struct browser_row) rows;
    size_t cursor; /* a row; there is always one, the root's, once there is a tree */
    struct map open;
    VEC(uint64_t) paths; /* of the nodes: their identities */
};

/* Zero-initialise. All of these return false if memory is short. */
void browser_release(struct browser *b);

/* Shows another tree, or the same after tree_sort; it must outlive its use. */
bool browser_show(struct browser *b, const struct tree *t);

bool browser_set_only_live(struct browser *b, bool only_live);

/* Opens or closes the row of the cursor. The root stays open. */
bool browser_set_open(struct browser *b, bool open);

/* Opens everything below the row of the cursor, up to `most` rows in all. */
bool browser_open_below(struct browser *b, size_t most);

/* Closes everything. */
bool browser_close_all(struct browser *b);

/* Moves the cursor to the row of the parent. */
void browser_to_parent(struct browser *b);

/* Moves the cursor by `by` rows, up to the ends. */
void browser_move(struct browser *b, ptrdiff_t by);

/*
 * Moves the cursor to the next or previous node whose name, file or image contains the text,
 * ignoring the case of ASCII and wrapping around. Nodes in closed ones are found and opened, too.
 * *found is set accordingly.
 */
bool browser_find(struct browser *b, const char *text, bool forward, bool *found);

#endif
