#ifndef TIDEMARK_ANALYSIS_NAMES_FRAMES_H
#define TIDEMARK_ANALYSIS_NAMES_FRAMES_H

/* The frames of a call stack one by one, inlined functions included, with their names looked up. */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/view.h"
#include "trace/store/store.h"

/* Views are empty where the trace knows nothing; they stay valid as long as the trace. */
struct frame_view {
    struct view function; /* or the place in the image, "libfoo.so+0x1234" */
    bool has_name;        /* it is a function */
    bool base_unknown;    /* `tidemark symbols` could not tell where the image was mapped */
    uint64_t offset; /* bytes from the function's start, where it is all that is known; else 0 */
    struct view file;
    uint32_t line; /* 0 unknown */
    struct view image;
    uint64_t address; /* of the code, 0 unknown */
    bool is_inline;   /* inlined into the frame that follows */
};

/* One function of a frame: `inlined` counts from the innermost. Works for unresolved frames, too.
 */
struct frame_view frame_describe(const struct trace *t, uint32_t frame, uint32_t inlined);

/* How many functions there are to describe at a frame: at least one. */
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
 * Appends the name to show: the function, or "[unknown] image (0xADDRESS)" with what is known of
 * that. The bytes are the trace's own: escape them before they reach a terminal.
 */
void frame_name(struct buf *out, const struct frame_view *f);

#endif
