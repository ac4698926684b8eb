#pragma once

/*
 * Frames of runtimes that generate code, as of node and Java: the images that call generated code,
 * and stubs in it.
 */

#include <stdbool.h>
#include <stdint.h>

#include "analysis/names/frames.h"
#include "base/err.h"
#include "base/vec.h"
#include "trace/store/store.h"

struct runtimes {
    VEC(uint32_t) images; /* they call generated code; string numbers */
    uint32_t generated;   /* the image of generated code; 0: there is none */
};

/* Zero-initialise. */
int runtimes_find(struct runtimes *r, const struct trace *t, struct err *e);
void runtimes_release(struct runtimes *r);

bool runtimes_have(const struct runtimes *r, uint32_t image);

/*
 * Whether a function in generated code is the program's: it has a line in a file that is not of
 * node's library, or it is a Java method outside of the JDK's packages, "J.load".
 */
bool runtimes_is_program(const struct frame_view *f);

/*
 * Takes the frames of runtimes out of the call stacks that have a function of a script or a method:
 * those in their images, and in generated code those without a line that are no method. Other call
 * stacks, of what a runtime allocates for itself, stay. Call stacks keep their numbers, and two may
 * become equal.
 */
int runtime_frames_hide(struct trace *t, struct err *e);
