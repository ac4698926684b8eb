#ifndef TIDEMARK_SYMBOLS_INDEX_DWARF_LINES_H
#define TIDEMARK_SYMBOLS_INDEX_DWARF_LINES_H

/*
 * Sequences of line rows for code that the linker left out begin at address 0, or at one that
 * stands for none, and may reach from there into addresses of code. Where a back end gives the rows
 * of all sequences sorted together (libdw) they could not be told apart any more. So it is given a
 * copy of .debug_line in which they begin far from all code.
 */

#include <stdint.h>

#include "base/err.h"
#include "base/view.h"
#include "symbols/index/index_maker.h"

/*
 * *copy: memory for the caller to free, of lines.len bytes; NULL when nothing needs to be changed.
 * What cannot be read is left as it is.
 */
int dwarf_lines_set_apart(struct view lines, const struct code_map *code, uint8_t **copy,
                          struct err *e);

#endif
