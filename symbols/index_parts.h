#ifndef TIDEMARK_SYMBOLS_INDEX_PARTS_H
#define TIDEMARK_SYMBOLS_INDEX_PARTS_H

/* What the parts of symbols/index share. */

#include <pthread.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/vec.h"
#include "symbols/dwarf.h"
#include "symbols/index.h"
#include "symbols/index_block.h"
#include "symbols/index_maker.h"
#include "symbols/index_walk.h"

enum unit_state {
    UNIT_WAITING,
    UNIT_BUILT,
    UNIT_PARTLY, /* built, but something in it could not be read */
};

#define UNIT_SPLIT_MISSING 1u

struct index_unit {
    uint64_t root;     /* offset of its first entry in .debug_info */
    uint64_t split_id; /* of a skeleton from DWARF 5 on; 0 where an attribute may tell it */
    uint32_t state;
    uint32_t flags;
    struct view block; /* aligned to 8; no bytes unless built */
    bool owned;        /* else in the cache file's bytes */
};

/* [low, high) belongs to a unit. Sorted; no two overlap. */
struct index_range {
    uint64_t low, high;
    uint32_t unit;
    uint32_t reserved;
};

/* A name as people write it: memory of its own, or where the linkage name lies when it is that. */
struct index_name {
    struct view linkage; /* in a block or in the cache file; a NUL follows both */
    struct view function;
    bool owned;
};

/* A text of a block that was asked for lately: its length and, if that was asked for, its name. */
struct index_text {
    struct view text; /* p NULL: none */
    struct view function;
};

#define INDEX_TEXTS 16384u

struct symbol_index {
    VEC(struct index_unit) units;
    VEC(struct index_range) ranges;
    VEC(struct index_name) names;
    struct map name_by_hash;              /* of the linkage name: number + 1 */
    struct index_text texts[INDEX_TEXTS]; /* at most one for each hash of where it lies */
    struct block at_hand; /* of the last look-up, whose bytes are these; NULL: none */
    const char *at_hand_bytes;
    size_t near_row, near_segment; /* where in it the last ones were found */
    struct buf room;               /* for a name being made */
    uint64_t bytes;                /* of owned blocks and names */
    char fault[160];
    enum index_back_end back_end;
    void *mapped; /* the cache file; NULL */
    size_t mapped_size;
    uint64_t mapped_device, mapped_inode;
};

/* A range that a unit states, before overlaps are settled. */
struct unit_claim {
    uint64_t low, high;
    uint32_t unit;
};

typedef VEC(struct unit_claim) unit_claims;

/*
 * Settles who has an address that several units claim: the unit that has the address before it, as
 * long as that one claims it; else the lowest. (The linker gives all copies of an inline function
 * the address of the one that it keeps.) False when memory is short.
 */
bool index_settle(struct symbol_index *x, unit_claims *claims);

/* Adds a name; false when memory is short. `hash` is index_hash(linkage). */
bool index_add_name(struct symbol_index *x, uint64_t hash, const struct index_name *name);
uint64_t index_hash(struct view linkage);

/* The unit of an address; NULL when there is none. */
struct index_unit *index_unit_at(const struct symbol_index *x, uint64_t address);

#endif
