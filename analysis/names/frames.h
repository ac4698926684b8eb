#pragma once

/* Iterates over the frames of a call stack, inlined functions included, with their names. */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/view.h"
#include "trace/store/store.h"

/* Views are empty for unknown values; they are valid as long as the trace. */
struct frame_view {
    struct view function; /* or the offset in the image, "libfoo.so+0x1234" */
    bool has_name;        /* `function` is a function's name */
    bool base_unknown;    /* `tidemark symbols` could not find the load address of the image */
    uint64_t offset;      /* bytes from the function's start, if nothing better is known; else 0 */
    struct view file;
    struct view name_from; /* where a name without a file is from (enum name_origin) */
    uint32_t line;         /* 0: unknown */
    struct view image;
    uint64_t address; /* of the code; 0: unknown */
    bool is_inline;   /* inlined into the next frame */
};

/*
 * Describes one function of a frame: `inlined` counts from the innermost. Also for unresolved
 * frames.
 */
struct frame_view frame_describe(const struct trace *t, uint32_t frame, uint32_t inlined);

/* The number of functions of a frame: at least one. */
uint32_t frame_depth(const struct trace *t, uint32_t frame);

struct frame_walk {
    const struct trace *trace;
    uint32_t node;
    uint32_t inlined;
};

/* Starts at the innermost frame. A call stack that does not exist has no frames. */
struct frame_walk frame_walk_start(const struct trace *t, uint32_t callstack);

/* The next frame outwards; false at the end. */
bool frame_walk_next(struct frame_walk *w, struct frame_view *out);

/*
 * Appends the display name: the function, or "[unknown] image (0xADDRESS)" as far as known. The
 * bytes are those of the trace: escape them before printing.
 */
void frame_name(struct buf *out, const struct frame_view *f);

/* As frame_name, with a long name shortened (function_name_short): for text that people read. */
void frame_short_name(struct buf *out, const struct frame_view *f);

/* As frame_name, of a function its bare name (function_name): where there is little room. */
void frame_bare_name(struct buf *out, const struct frame_view *f);

/*
 * Appends " (file.cpp:12)", bytes of the trace; nothing if the file is unknown. With its folder,
 * " (json/__init__.py:12)", if the name alone says little: of __init__.py and the like, and of
 * "<module>", the code of a Python file outside of its functions.
 */
void frame_source(struct buf *out, const struct frame_view *f);
