#pragma once

/*
 * Walks one unit and feeds its functions, their inlined calls and its lines to a
 * maker. Nothing recurses. Depth, number of entries and time are bounded.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "symbols/dwarf/dwarf.h"
#include "symbols/index/index_maker.h"

#define WALK_DEPTH 1024u /* nesting of entries */
#define WALK_HOPS 32u    /* entries followed for one name */

/* Shared by all walks of an index. */
struct walk_budget {
    _Atomic uint64_t left; /* entries and rows left to read */
    uint64_t deadline_ns;  /* of CLOCK_MONOTONIC; 0: none */
    _Atomic bool late;
    uint64_t maker_bytes; /* limit of bytes in a maker */
};

struct unit_walk {
    struct dwarf_reader *reader;
    struct unit_maker *maker;
    struct walk_budget *budget;
    struct dwarf_base base; /* of the unit's ranges */
    struct map names;       /* by entry: string, and whether it is known */
    uint64_t spent;         /* not yet subtracted from the budget */
};

/* Forgets the data of the current file, at the end or before another one is walked. */
void walk_reset(struct unit_walk *w);

/* Counts one entry or row. False if the walk must stop. */
bool walk_spend(struct unit_walk *w);

/* Walks the line table of the unit with this first entry. Sets maker->fault on unreadable data. */
void walk_lines(struct unit_walk *w, struct dwarf_node *root);

/* Walks the functions of the unit with this first entry. */
void walk_functions(struct unit_walk *w, struct dwarf_node *root);

/*
 * Calls `fn` with the code ranges that the first entry of a unit states; false if it states none.
 */
bool walk_unit_ranges(struct dwarf_node *root, const struct dwarf_entry *entry, dwarf_range_fn *fn,
                      void *user);
