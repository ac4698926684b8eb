#ifndef TIDEMARK_ANALYSIS_QUESTIONS_DIFF_TYPES_H
#define TIDEMARK_ANALYSIS_QUESTIONS_DIFF_TYPES_H

/* What the rows of a comparison are made of (types.h). For diff*.c only. */

#include "analysis/questions/diff.h"
#include "base/map.h"

/*
 * Gives the rows of this side the type of most bytes, and how many others there are. `stacks`: by
 * pool of the comparison and call stack; `rows`: pool << 32 | group → row; `groups`: call stack →
 * group.
 */
int diff_types_attach(const struct accounting *stacks, struct diff *d, int side,
                      const struct map *rows, const uint32_t *groups, struct err *e);

#endif
