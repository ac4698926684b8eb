#pragma once

/*
 * Where the program begins in a call stack: at the innermost function, inlined ones included, that
 * is neither instrumentation, nor called by it, nor allocator (skiplist.h), nor a wrapper of the
 * program's own (wrapper_functions.h). If that function has no name, as in a stripped image, then
 * at its nearest caller that has one. If nothing with a name is beyond a wrapper of the program's
 * own, the program begins at that. If nothing but a start is beyond interpreted functions, as of
 * what an interpreter imports first, it begins at the innermost of those. Functions of CPython's
 * standard extension modules are passed over if the next one beyond them is of Python.
 */

#include <stdint.h>

#include "analysis/names/runtime_frames.h"
#include "analysis/names/skiplist.h"
#include "analysis/names/wrapper_functions.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/vec.h"
#include "trace/store/store.h"

struct program_frames {
    const struct trace *trace;
    const struct skiplist *skip;
    struct wrapper_functions wrappers; /* of the trace; they count as allocators */
    struct runtimes runtimes;
    size_t frame_count; /* of the trace, + 1 */
    uint32_t *found;    /* by frame number: the innermost function of the program in it */
    uint8_t *is_client; /* by frame number: whether it holds a function of the instrumentation */
};

/* A function of a call stack. */
struct stack_place {
    uint32_t node;    /* 0: the call stack has no frames */
    uint32_t inlined; /* as in frame_describe */
};

/* `skip` NULL: the built-in rules. Both must outlive it. */
int program_frames_init(struct program_frames *p, const struct trace *t,
                        const struct skiplist *skip, struct err *e);
void program_frames_release(struct program_frames *p);

/*
 * Passes over further wrappers, those of a trace that is compared, so that a function is a site in
 * both or in none. They are copied; their trace must outlive `p`. Before any call stack was looked
 * at. Only for a skiplist that does not say names_alone.
 */
int program_frames_pass_over(struct program_frames *p, const struct wrapper_functions *more,
                             struct err *e);

#define NO_PROGRAM_FUNCTION UINT32_MAX

/*
 * The innermost function of a frame that belongs to the program and was not called by
 * instrumentation, as in frame_describe; NO_PROGRAM_FUNCTION if there is none. Sets p->is_client,
 * which is true if the frame has a function of the instrumentation.
 */
uint32_t program_frames_function(struct program_frames *p, uint32_t frame);

/*
 * The node of the innermost frame that instrumentation did not call: the outermost one with a
 * function of the instrumentation, else the first frame. 0: the call stack has no frames.
 */
uint32_t program_frames_start(struct program_frames *p, uint32_t callstack);

/*
 * Where the program begins. In a call stack without any of its functions: the innermost function
 * beyond the instrumentation, else the outermost.
 */
struct stack_place program_frames_begin(struct program_frames *p, uint32_t callstack);

/*
 * Appends, line by line, the functions of a call stack from the allocation to its site, with the
 * rule by which each is not the site. Escaped for terminals.
 */
void program_frames_explain(struct program_frames *p, uint32_t callstack, struct buf *out);

/*
 * The nearest caller of a function of a call stack that has a name, belongs to the program and is
 * another function; node 0 when there is none before the start of the program or thread. `main` is
 * one.
 */
struct stack_place program_frames_caller(struct program_frames *p, struct stack_place of);
