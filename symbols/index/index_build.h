#pragma once

/* Shared by the threads that build an index. */

#include "symbols/index/index_parts.h"
#include "symbols/index/index_split.h"
#include "symbols/pdb/pdb_types.h"

struct todo {
    uint32_t unit;
    uint64_t size;
};

struct index_build {
    struct symbol_index *x;
    const struct elf_file *file;
    const struct pdb_file *pdb; /* of `file`; NULL: it has DWARF */
    struct index_options options;
    struct dwarf_sections sections;
    struct dwarf_image image, alternate; /* `alternate` is empty if there is none */
    struct split_package package;
    struct code_map code;
    struct walk_budget budget;
    uint64_t memory;      /* limit for all blocks */
    pthread_mutex_t lock; /* guards x while threads run, and open_split */
    VEC(struct todo) todo;
    _Atomic size_t next; /* index in todo */
    _Atomic bool failed; /* memory is short */
    unit_claims claims;
};

/*
 * Walks the functions of the split unit that belongs to `skeleton`, with a separate reader. False
 * if it is not found or has another id.
 */
bool split_walk(struct index_build *b, struct unit_walk *w, const struct dwarf_entry *skeleton,
                uint64_t id);
