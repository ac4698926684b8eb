#ifndef TIDEMARK_SYMBOLS_INDEX_INDEX_WALK_H
#define TIDEMARK_SYMBOLS_INDEX_INDEX_WALK_H

/*
 * Walks one unit with a back end: its functions, what is inlined into them, and its lines go to a
 * maker. Nothing recurses; depth, number of entries and time are bounded.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "symbols/dwarf/dwarf.h"
#include "symbols/index/index_maker.h"

#define WALK_DEPTH 1024u /* of entries within entries */
#define WALK_HOPS 32u    /* entries looked at for one name */

/* Shared by all walks of an index. */
struct walk_budget {
    _Atomic uint64_t left; /* entries and rows that may still be read */
    uint64_t deadline_ns;  /* of CLOCK_MONOTONIC; 0: none */
    _Atomic bool late;
    uint64_t maker_bytes; /* that a maker may hold */
};

struct unit_walk {
    const struct dwarf_back_end *ops;
    void *reader;
    struct unit_maker *maker;
    struct walk_budget *budget;
    struct dwarf_base base; /* of the unit's ranges */
    struct map names;       /* by entry: string and whether it is known */
    uint64_t spent;         /* not yet taken from the budget */
};

void walk_release(struct unit_walk *w);
/* Forgets what it knows of the unit's file, when another one comes. */
void walk_reset(struct unit_walk *w);

/* Line table of the unit with this first entry. What cannot be read is told in maker->fault. */
void walk_lines(struct unit_walk *w, const struct dwarf_node *root);

/* Functions of the unit with this first entry. */
void walk_functions(struct unit_walk *w, const struct dwarf_node *root);

/*
 * The ranges of code that the first entry of a unit states, through `fn`; false when it states
 * none.
 */
bool walk_unit_ranges(const struct dwarf_back_end *ops, void *reader, const struct dwarf_node *root,
                      const struct dwarf_entry *entry, dwarf_range_fn *fn, void *user);

#endif
