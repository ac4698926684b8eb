#pragma once

/* The types of the rows of a comparison (types.h). For diff*.c only. */

#include "analysis/diff/diff.h"
#include "base/map.h"

/*
 * Sets the type of most bytes of the rows of this side, and the number of others. `stacks`: by pool
 * of the comparison and call stack; `rows`: pool << 32 | group → row; `groups`: call stack → group.
 */
int diff_types_attach(const struct accounting *stacks, struct diff *d, int side,
                      const struct map *rows, const uint32_t *groups, struct err *e);
