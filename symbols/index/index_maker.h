#pragma once

/*
 * Collects the data that a walk finds in one unit, and makes a block (symbols/index/index_block.h)
 * of it. A maker is reused for one unit after another, by one thread.
 *
 * Of overlapping scopes, the one added last owns the address: inner scopes are added after outer
 * ones.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/vec.h"
#include "base/view.h"
#include "symbols/dwarf/dwarf.h"
#include "symbols/index/index_block.h"

struct elf_file;

/* The code of an image: sorted ranges without overlaps. */
struct code_range {
    uint64_t low, high;
};

struct code_map {
    VEC(struct code_range) ranges;
};

/* False if memory is short. */
bool code_map_read(struct code_map *m, const struct elf_file *f);
void code_map_release(struct code_map *m);
/*
 * Whether one range contains all of [low, high). Without any range, every address but 0 counts as
 * code.
 */
bool code_map_has(const struct code_map *m, uint64_t low, uint64_t high);

struct maker_scope {
    struct block_scope scope;
    uint64_t low; /* UINT64_MAX: none */
};

struct maker_range {
    uint64_t low, high;
    uint32_t scope; /* number + 1 */
};

struct maker_row {
    uint64_t address;
    uint32_t order;
    uint32_t scope; /* number + 1 of the scope that it holds for; 0: none */
    uint32_t line;
    uint32_t file; /* number + 1 */
    uint16_t column;
    bool end;
};

struct unit_maker {
    const struct code_map *code;
    VEC(struct maker_scope) scopes;
    VEC(struct maker_range) ranges;
    VEC(struct maker_row) rows;
    bool scoped;         /* rows hold for one scope each */
    VEC(uint32_t) paths; /* by file number of the line table: offset in path_text + 1 */
    VEC(uint32_t) slots; /* beside `paths`: the number + 1 in `files`; 0: none yet */
    VEC(uint32_t) files; /* strings; texts + 1 at the end */
    VEC(uint32_t) texts; /* at the end: offsets in `strings` */
    struct buf path_text;
    struct buf strings;
    struct map string_places; /* by address of the string */
    bool failed;              /* memory is short */
    const char *fault;        /* why the unit is incomplete; or NULL */
};

void maker_init(struct unit_maker *m, const struct code_map *code);
void maker_release(struct unit_maker *m);
void maker_reset(struct unit_maker *m);

/* Bytes that the maker holds for the unit. */
uint64_t maker_bytes(const struct unit_maker *m);

/* Adds a string that stays valid until the unit is done. Returns 0 for NULL and "". */
uint32_t maker_string(struct unit_maker *m, const char *text);
/* Adds a copy of a text without NULs. Returns 0 if it is empty. */
uint32_t maker_text(struct unit_maker *m, struct view text);

/* Adds a scope. Returns its number + 1; 0 if memory is short. */
uint32_t maker_scope(struct unit_maker *m, const struct block_scope *scope);
/* Adds a code range of a scope; parts that are no code of the image are ignored. */
void maker_scope_range(struct unit_maker *m, uint32_t scope, uint64_t low, uint64_t high);

/* Adds a file with its number in the line table. All files come before the rows. */
void maker_file(struct unit_maker *m, uint32_t number, struct view path);
/* The number + 1 of such a file in the block; 0 if there is none. */
uint32_t maker_file_number(struct unit_maker *m, uint32_t number);
/* Adds a file by its path, a string that stays valid until the unit is done; the number + 1. */
uint32_t maker_path(struct unit_maker *m, const char *path);
/* Adds a row of any sequence. */
void maker_row(struct unit_maker *m, const struct dwarf_row *row);
/*
 * Adds a row that holds only where `scope` (number + 1; 0: no scope) is the innermost one. A unit
 * has either such rows or the others. `row->file` is a number + 1 in the block.
 */
void maker_scope_row(struct unit_maker *m, uint32_t scope, const struct dwarf_row *row);

/* Makes the block, which the caller frees; NULL if memory is short. */
void *maker_finish(struct unit_maker *m, size_t *size);
