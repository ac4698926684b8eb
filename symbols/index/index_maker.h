#ifndef TIDEMARK_SYMBOLS_INDEX_INDEX_MAKER_H
#define TIDEMARK_SYMBOLS_INDEX_INDEX_MAKER_H

/*
 * Gathers what a walk finds in one unit, and makes a block (symbols/index/index_block.h) of it. A
 * maker is used for one unit after the other, by one thread.
 *
 * Of overlapping scopes the one that was added last has the address: inner scopes come after those
 * that they lie in.
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

/* Where an image has code: sorted ranges that do not overlap. */
struct code_range {
    uint64_t low, high;
};

struct code_map {
    VEC(struct code_range) ranges;
};

/* False when memory is short. */
bool code_map_read(struct code_map *m, const struct elf_file *f);
void code_map_release(struct code_map *m);
/* Whether all of [low, high) is code, of one range. Without any range all but address 0 is. */
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
    bool dead; /* the sequence of rows at hand is code that the linker left out */
    bool in_sequence;
    VEC(uint32_t) paths; /* of the line table's files: places in path_text + 1 */
    VEC(uint32_t) slots; /* of these: what number + 1 they have in `files`; 0: none yet */
    VEC(uint32_t) files; /* strings; in the end texts + 1 */
    VEC(uint32_t) texts; /* in the end: places in `strings` */
    struct buf path_text;
    struct buf strings;
    struct map string_places; /* by the address of the string */
    bool failed;              /* memory is short */
    const char *fault;        /* why the unit is not complete; NULL */
};

void maker_init(struct unit_maker *m, const struct code_map *code);
void maker_release(struct unit_maker *m);
void maker_reset(struct unit_maker *m);

/* Bytes that it has at hand for the unit. */
uint64_t maker_bytes(const struct unit_maker *m);

/* A string that stays where it is until the unit is done. 0 for NULL and "". */
uint32_t maker_string(struct unit_maker *m, const char *text);

/* Adds a scope. Returns its number + 1; 0 when memory is short. */
uint32_t maker_scope(struct unit_maker *m, const struct block_scope *scope);
/* Code of it; what is no code of the image is left out. */
void maker_scope_range(struct unit_maker *m, uint32_t scope, uint64_t low, uint64_t high);

/* Files of the line table as it numbers them, then its rows. */
void maker_file(struct unit_maker *m, uint32_t number, struct view path);
/* The number + 1 of such a file in the block; 0 when there is none. */
uint32_t maker_file_number(struct unit_maker *m, uint32_t number);
/* `sorted`: rows of all sequences come together in order of address. */
void maker_row(struct unit_maker *m, const struct dwarf_row *row, bool sorted);

/* Makes the block, to be freed. NULL when memory is short. Calls fn for each range of code found.
 */
void *maker_finish(struct unit_maker *m, size_t *size);

#endif
