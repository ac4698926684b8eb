#pragma once

/*
 * Which call stacks lack callers, because the recording is limited to a depth.
 *
 * Traces of `tidemark run` mark them with a special frame (trace/store/frame_name.h), and one
 * without that frame has none. Tracy's clients do not mark them. Of theirs, a call stack counts as
 * cut if it has the maximum depth of all allocations and its outermost frame has callers in other
 * call stacks. That proves missing callers, but not all cut stacks can be proved: their number is a
 * lower bound. With fewer than CUT_STACKS_LEAST frames, the client may simply not have found more.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "trace/store/store.h"

#define CUT_STACKS_LEAST 8u

struct cut_stacks {
    const struct trace *trace;
    size_t size;         /* of roots, bytes */
    uint32_t *roots;     /* by node: the outermost node above it, or itself */
    uint8_t *has_caller; /* by frame, in bits */
    bool has_marker;     /* there is a marker frame, … */
    uint32_t least;      /* … with this depth, or several with more */
    bool depths_differ;
    uint32_t deepest; /* maximum depth of the noted call stacks, */
    uint32_t one;     /* the first one of that depth, */
    bool several;     /* and whether there is another one */
    bool is_bound;    /* inferred without a marker: others may be cut, too */
};

/* `c` need not be initialised. */
int cut_stacks_init(struct cut_stacks *c, const struct trace *t, struct err *e);
void cut_stacks_release(struct cut_stacks *c);

/* Notes the call stack of an allocation. Call it for each, before the queries. */
void cut_stacks_note(struct cut_stacks *c, uint32_t callstack);

bool cut_stacks_has(const struct cut_stacks *c, uint32_t callstack);

/* The depth limit of the cut call stacks; a lower bound if depths_differ (after a merge). */
uint32_t cut_stacks_depth(const struct cut_stacks *c);
