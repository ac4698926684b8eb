#pragma once

/*
 * The site of an allocation: the innermost frame of its call stack, inlined functions included,
 * that is neither instrumentation, nor called by it, nor an allocator (skiplist.h). If a call stack
 * has no such frame, its site is the innermost frame beyond the instrumentation, else the outermost
 * frame. Allocations without a call stack have a separate site, number 0.
 *
 * Sites are compared by text, not by string numbers, so duplicate texts in a file do not matter.
 * By line, blocks that libraries keep until the end (permanent.h) are separate sites.
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
    /* All empty for SITE_NO_CALLSTACK; by function without line or address. */
    struct frame_view frame;
    uint8_t permanent; /* by line: the kind of its blocks (permanent.h) */
};

struct sites {
    VEC(struct site) list;
    struct pageable *pageable; /* the trace's; it outlives the sites. NULL: the heap */
    uint32_t *of_callstack;    /* call stack id → site number */
    size_t callstack_count;    /* length of of_callstack: the number of call stacks + 1 */
};

/* Finds the site of every call stack of the trace. `s` need not be initialised. */
int sites_build(struct sites *s, const struct trace *t, const struct skiplist *skip,
                enum site_detail detail, struct err *e);
/* The same with program frames of the caller, which may be reused. */
int sites_build_from(struct sites *s, struct program_frames *program, enum site_detail detail,
                     struct err *e);
void sites_release(struct sites *s);
