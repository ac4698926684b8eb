#pragma once

/*
 * Line rows of code that the linker discarded begin at address 0 or at a tombstone address, and may
 * reach into real code. libdw returns the rows of all sequences sorted together, so they would
 * be indistinguishable. So these sequences are made to begin far from all code.
 */

#include <stdint.h>

#include "symbols/index/index_maker.h"

/* Changes .debug_line, of which libdw has a copy. Unreadable parts stay unchanged. */
void dwarf_lines_set_apart(uint8_t *lines, size_t len, const struct code_map *code);
