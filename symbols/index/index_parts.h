#pragma once

/* Shared by the parts of symbols/index. */

#include <pthread.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/vec.h"
#include "symbols/dwarf/dwarf.h"
#include "symbols/index/index.h"
#include "symbols/index/index_block.h"
#include "symbols/index/index_maker.h"
#include "symbols/index/index_walk.h"

enum unit_state {
    UNIT_WAITING,
    UNIT_BUILT,
    UNIT_PARTLY, /* built, with some parts unreadable */
};

#define UNIT_SPLIT_MISSING 1u

struct index_unit {
    uint64_t root;     /* offset of its first entry in .debug_info */
    uint64_t split_id; /* of a skeleton since DWARF 5; 0: an attribute may have it */
    uint32_t state;
    uint32_t flags;
    struct view block; /* aligned to 8; empty unless built */
    bool owned;        /* else part of the cache file */
};

/* [low, high) belongs to a unit. Sorted, without overlaps. */
struct index_range {
    uint64_t low, high;
    uint32_t unit;
    uint32_t reserved;
};

/*
 * A text of blocks or of the image's symbol tables, shared by all of them: a function with its
 * demangled name, or a file.
 */
struct index_name {
    struct view linkage;  /* in a block, a symbol table or the cache file */
    struct view function; /* owned, or equal to `linkage` */
    bool plain;           /* a file: never demangled */
    bool owned;           /* `function` is owned */
};

/* A name in the cache file. */
struct cached_name {
    uint64_t at; /* offset from the texts: linkage name, NUL, demangled name, NUL */
    uint32_t linkage_len;
    uint32_t function_len; /* 0: equal to the linkage name; CACHED_PLAIN: a file */
};

#define CACHED_PLAIN UINT32_MAX

struct symbol_index {
    VEC(struct index_unit) units;
    VEC(struct index_range) ranges;
    const struct cached_name *cached; /* the first of the names, in the cache file */
    size_t n_cached;
    struct view cached_texts;
    VEC(struct index_name) names; /* the names after those */
    struct map name_by_hash;      /* by linkage name: number + 1 */
    bool hashed;                  /* includes the names of the cache file */
    uint32_t *symbols;            /* by symbol number: its name (number + 1) */
    size_t n_symbols;
    bool own_symbols;     /* else part of the cache file */
    struct block at_hand; /* of the last look-up, over these bytes; NULL: none */
    const char *at_hand_bytes;
    size_t near_range, near_row, near_segment; /* positions of the last results */
    struct buf room;                           /* for a name in the making */
    struct pdb_types *types;                   /* of a PDB file; NULL until modules are read */
    uint64_t bytes;                            /* of owned blocks and names */
    char fault[160];
    void *mapped; /* the cache file; or NULL */
    size_t mapped_size;
    uint64_t mapped_device, mapped_inode;
};

/* A range that a unit states, before overlaps are resolved. */
struct unit_claim {
    uint64_t low, high;
    uint32_t unit;
};

typedef VEC(struct unit_claim) unit_claims;

/*
 * Resolves addresses claimed by several units: the unit that owns the previous address keeps it
 * while it claims it; otherwise the lowest unit gets it. (The linker gives all copies of an inline
 * function the address of the copy it keeps.) False if memory is short.
 */
bool index_settle(struct symbol_index *x, unit_claims *claims);

/* ---- names (symbols/index/index_names.c); numbers + 1, 0 is none */

void index_names_release(struct symbol_index *x);

/* Reads a name by its number + 1. False if there is none, or if the cache file is inconsistent. */
bool index_name_get(const struct symbol_index *x, uint32_t number, struct index_name *out);

/* The name number of a block's text; 0 for no text, or if memory is short. */
uint32_t index_name_of_text(struct symbol_index *x, const struct block *b, uint32_t text,
                            bool plain);

static inline size_t index_name_count(const struct symbol_index *x)
{
    return x->n_cached + x->names.len;
}

/* The unit that owns an address; NULL if there is none. */
struct index_unit *index_unit_at(const struct symbol_index *x, uint64_t address);
