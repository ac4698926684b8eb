#pragma once

/*
 * The state of the interactive tree view: open nodes, visible rows, cursor. Nodes are identified by
 * the names on their path, so the state survives when the tree is rebuilt, from more events or in
 * another order. The tree is one of tree_open and grows by what is looked at: the rows, and what
 * browser_row reports of them.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/questions/tree.h"
#include "base/buf.h"
#include "base/map.h"
#include "base/vec.h"

struct browser_row {
    uint32_t head;  /* the first node of a folded chain that ends in `node`; else `node` */
    uint32_t depth; /* rows above it that it is in */
    uint64_t path;  /* of the head, */
    uint64_t above; /* and of its parent */
    bool open;
    /* From browser_row: */
    bool known;
    uint32_t node;
    bool has_children; /* visible ones */
};

/* A node whose label contains a text, grown or not. */
struct browser_hit {
    uint64_t path, weight, live;
    size_t stack; /* one through it */
    uint32_t depth;
};

struct browser {
    struct tree *tree;
    bool only_live; /* hide nodes with nothing live */
    bool fold;      /* nodes that differ from their single child in no figure share its row */
    VEC(struct browser_row) rows;
    size_t cursor;   /* a row; there is always one, the root's, once there is a tree */
    struct map open; /* tree_path of open nodes; of a chain, all of it */
    /* Of nodes with so many children that one stands for others (options.most), by path: */
    struct map more;              /* how many more the user has asked for, */
    struct map chosen;            /* the path of a child that is shown however small it is */
    VEC(struct browser_hit) hits; /* in the tree, */
    struct buf searched;          /* and for what, in lower case; empty: not known */
    uint64_t found;               /* the path of the match that the cursor was moved to last */
    /* Called during a search, with the call stacks searched, of how many: false stops it. */
    bool (*searching)(void *ctx, size_t done, size_t of); /* may be NULL */
    void *searching_ctx;
};

/* Zero-initialise. All of these return false if memory is short. */
void browser_release(struct browser *b);

/*
 * Shows another tree, or the same after tree_sort: children are sorted as they are shown. The tree
 * must outlive its use.
 */
bool browser_show(struct browser *b, struct tree *t);

bool browser_set_only_live(struct browser *b, bool only_live);
bool browser_set_fold(struct browser *b, bool fold);

/* A row, completed. b->tree->failed is set if memory is short. */
const struct browser_row *browser_row(struct browser *b, size_t at);

/*
 * Opens or closes the row of the cursor. The root stays open. A row that stands for others makes
 * place for the next ones, as many as options.most.
 */
bool browser_set_open(struct browser *b, bool open);

/* Opens everything below the row of the cursor, up to `most` rows in all. */
bool browser_open_below(struct browser *b, size_t most);

/* Closes everything. */
bool browser_close_all(struct browser *b);

/* Moves the cursor to the row of the parent. */
void browser_to_parent(struct browser *b);

/* Moves the cursor by `by` rows, up to the ends. */
void browser_move(struct browser *b, ptrdiff_t by);

/* The place of a match among all: from 1 to `count`, by the tree's metric. */
struct browser_match {
    size_t at, count;
    bool stopped; /* by searching: the cursor was not moved */
};

enum browser_to { BROWSER_HEAVIEST, BROWSER_LIGHTER, BROWSER_HEAVIER };

/*
 * Moves the cursor to the heaviest node whose name, file or image contains the text, or from one of
 * them to the next lighter or heavier, wrapping around. The case of ASCII is ignored. Nodes in
 * closed ones are found and opened, too. *match: all 0 if there is none.
 */
bool browser_find(struct browser *b, const char *text, enum browser_to where,
                  struct browser_match *match);
