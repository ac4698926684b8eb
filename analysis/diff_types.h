#ifndef TIDEMARK_ANALYSIS_DIFF_TYPES_H
#define TIDEMARK_ANALYSIS_DIFF_TYPES_H

/* What the rows of a comparison are made of (types.h). For diff*.c only. */

#include "analysis/diff.h"
#include "analysis/program_frames.h"
#include "base/map.h"
#include "trace/memory.h"

/* Of one of the traces. */
struct diff_types {
    struct map bytes; /* pool of the comparison << 32 | call stack → bytes of all allocations */
};

void diff_types_release(struct diff_types *x);

/* An allocation in that pool of the comparison. */
int diff_types_count(struct diff_types *x, uint32_t pool, const struct memory_op *op,
                     struct err *e);

/*
 * Gives the rows of this side the type of most bytes, and how many others there are. `rows`: pool
 * << 32 | group → row; `groups`: call stack → group.
 */
int diff_types_attach(const struct diff_types *x, struct diff *d, int side, const struct map *rows,
                      const uint32_t *groups, struct err *e);

#endif
