#ifndef TIDEMARK_ANALYSIS_FIGURES_CUT_STACKS_H
#define TIDEMARK_ANALYSIS_FIGURES_CUT_STACKS_H

/*
 * Which call stacks lack callers, since the recording goes up to a depth.
 *
 * Traces of `tidemark run` say so by a frame of their own (trace/store/frame_name.h). Tracy's
 * clients do not. Of theirs a call stack counts that is as deep as the deepest of all allocations
 * and ends in a frame that has callers in other call stacks. That is proof that callers are
 * missing, but not all cut stacks give it: their number is the least. With fewer than
 * CUT_STACKS_LEAST frames it may as well be that the client found no more.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "trace/store/store.h"

#define CUT_STACKS_LEAST 8u

struct cut_stacks {
    const struct trace *trace;
    uint32_t *roots;     /* by node: the outermost node above it, itself included */
    uint8_t *has_caller; /* by frame, in bits */
    bool has_marker;     /* a frame that says so, … */
    uint32_t least;      /* … with this depth, or several with more */
    bool depths_differ;
    uint32_t deepest; /* frames of call stacks that were noted, */
    uint32_t one;     /* of those with so many the first, */
    bool several;     /* and whether there is another one */
    bool is_bound;    /* known without a marker: others may be cut, too */
};

/* `c` need not be initialised. */
int cut_stacks_init(struct cut_stacks *c, const struct trace *t, struct err *e);
void cut_stacks_release(struct cut_stacks *c);

/* An allocation has this call stack. To be called for each, before the questions. */
void cut_stacks_note(struct cut_stacks *c, uint32_t callstack);

bool cut_stacks_has(const struct cut_stacks *c, uint32_t callstack);

/* Frames up to which the call stacks go that are cut, at least if depths_differ (after a merge). */
uint32_t cut_stacks_depth(const struct cut_stacks *c);

#endif
