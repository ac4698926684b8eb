#pragma once

/*
 * Line rows of code that the linker discarded begin at address 0 or at a tombstone address, and may
 * reach into real code. libdw returns the rows of all sequences sorted together, so they would
 * be indistinguishable. So libdw gets a copy of .debug_line in which these sequences begin far from
 * all code.
 */

#include <stdint.h>

#include "base/err.h"
#include "base/view.h"
#include "symbols/index/index_maker.h"

/*
 * *copy has lines.len bytes and is freed by the caller; NULL if nothing must change. Unreadable
 * parts stay unchanged.
 */
int dwarf_lines_set_apart(struct view lines, const struct code_map *code, uint8_t **copy,
                          struct err *e);
