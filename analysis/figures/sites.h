#ifndef TIDEMARK_ANALYSIS_FIGURES_SITES_H
#define TIDEMARK_ANALYSIS_FIGURES_SITES_H

/*
 * The site of an allocation: the innermost frame of its call stack, inlined functions included,
 * that is neither instrumentation, nor called by it, nor allocator (skiplist.h). A call stack that
 * has none of those
 * is at its innermost frame beyond the instrumentation, else at its outermost frame. Allocations
 * without a call stack are a site of their own, number 0.
 *
 * Sites are told apart by text, not by string numbers, so a file that holds a text twice gives the
 * same sites.
 */

#include <stdint.h>

#include "analysis/names/frames.h"
#include "analysis/names/program_frames.h"
#include "analysis/names/skiplist.h"
#include "base/err.h"
#include "base/vec.h"

#define SITE_NO_CALLSTACK 0u

enum site_detail {
    SITE_BY_LINE,     /* function, file, line, image; unresolved frames by image and address */
    SITE_BY_FUNCTION, /* function, file, image; unresolved frames by image */
};

struct site {
    struct frame_view frame; /* all empty for SITE_NO_CALLSTACK; without line or address by function
                              */
};

struct sites {
    VEC(struct site) list;
    uint32_t *of_callstack; /* call stack id → site number */
    size_t callstack_count; /* length of of_callstack: the number of call stacks + 1 */
};

/* Finds the site of every call stack of the trace. `s` need not be initialised. */
int sites_build(struct sites *s, const struct trace *t, const struct skiplist *skip,
                enum site_detail detail, struct err *e);
/* The same where somebody has looked at the frames already, or will look again. */
int sites_build_from(struct sites *s, struct program_frames *program, enum site_detail detail,
                     struct err *e);
void sites_release(struct sites *s);

#endif
