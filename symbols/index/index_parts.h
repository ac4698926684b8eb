#ifndef TIDEMARK_SYMBOLS_INDEX_INDEX_PARTS_H
#define TIDEMARK_SYMBOLS_INDEX_INDEX_PARTS_H

/* What the parts of symbols/index share. */

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

/*
 * A text of blocks or of the image's symbol tables, the same for all of them: a function with what
 * people write for it, or a file.
 */
struct index_name {
    struct view linkage;  /* in a block, a symbol table or the cache file */
    struct view function; /* memory of its own, or where the linkage name lies when it is that */
    bool plain;           /* a file: never demangled */
    bool owned;           /* `function` */
};

/* The same in the cache file. */
struct cached_name {
    uint64_t at; /* linkage name, NUL, name as people write it, NUL; counted from the texts */
    uint32_t linkage_len;
    uint32_t function_len; /* 0: as the linkage name; CACHED_PLAIN: a file */
};

#define CACHED_PLAIN UINT32_MAX

struct symbol_index {
    VEC(struct index_unit) units;
    VEC(struct index_range) ranges;
    const struct cached_name *cached; /* the first of all names, in the cache file */
    size_t n_cached;
    struct view cached_texts;
    VEC(struct index_name) names; /* those that follow */
    struct map name_by_hash;      /* of the linkage name: number + 1 */
    bool hashed;                  /* those of the cache file are in it, too */
    uint32_t *symbols;            /* names (number + 1) of the image's symbols, by their number */
    size_t n_symbols;
    bool own_symbols;     /* else in the cache file */
    struct block at_hand; /* of the last look-up, whose bytes are these; NULL: none */
    const char *at_hand_bytes;
    size_t near_range, near_row, near_segment; /* where the last ones were found */
    struct buf room;                           /* for a name being made */
    uint64_t bytes;                            /* of owned blocks and names */
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

/* ---- names (symbols/index/index_names.c); numbers + 1, 0 is none */

void index_names_release(struct symbol_index *x);

/* A name by its number + 1. False where there is none, or the cache file contradicts itself. */
bool index_name_get(const struct symbol_index *x, uint32_t number, struct index_name *out);

/* That of a text of a block; 0 for no text, or when memory is short. */
uint32_t index_name_of_text(struct symbol_index *x, const struct block *b, uint32_t text,
                            bool plain);

static inline size_t index_name_count(const struct symbol_index *x)
{
    return x->n_cached + x->names.len;
}

/* The unit of an address; NULL when there is none. */
struct index_unit *index_unit_at(const struct symbol_index *x, uint64_t address);

#endif
