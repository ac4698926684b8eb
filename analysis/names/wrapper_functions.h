#pragma once

/*
 * Functions that a trace shows to be allocation wrappers: they do nothing with memory but call
 * malloc or the like, for many callers and in many sizes. A function F with a name, of the program,
 * is one if
 *
 * - in all its call stacks nothing but allocators (skiplist.h) is within F, and between them and F
 *   at most one function without a name,
 * - F allocates in WRAPPER_SIZES sizes or more, each the mean of a call stack,
 * - WRAPPER_CALLERS functions or more call F. A caller that allocates through F alone, or by
 *   itself, and in as many sizes, is a further layer: its callers count instead, up to
 *   WRAPPER_LAYERS layers.
 *
 * A wrapper that was found counts as an allocator for the next search, until no more are found or
 * WRAPPER_SEARCHES were made: a damaged file may have a chain as long as its call stacks. The
 * wrappers of known projects (wrapper_names.h) do not: what calls them is no wrapper by this.
 *
 * All allocations of the trace decide, whatever is selected of them, and a function is a wrapper in
 * all call stacks or in none. So all questions about a trace have the same sites.
 */

#include <stdint.h>

#include "analysis/names/skiplist.h"
#include "base/err.h"
#include "base/map.h"
#include "base/vec.h"
#include "base/view.h"
#include "trace/store/store.h"

#define WRAPPER_CALLERS 8u
#define WRAPPER_SIZES 8u
#define WRAPPER_LAYERS 3u
#define WRAPPER_SEARCHES 16u

/* Function texts as in the trace, which must outlive it. Zero-initialised: empty. */
struct wrapper_functions {
    VEC(struct view) list; /* in the order in which they were found */
    struct map numbers;    /* hash of the text → index; on a collision, the next key */
};

/* `w` must be empty; `skip` NULL: the built-in rules. */
int wrapper_functions_find(struct wrapper_functions *w, const struct trace *t,
                           const struct skiplist *skip, struct err *e);
void wrapper_functions_release(struct wrapper_functions *w);

bool wrapper_functions_have(const struct wrapper_functions *w, struct view function);

/* Adds those of another trace, which must outlive `w`. */
int wrapper_functions_join(struct wrapper_functions *w, const struct wrapper_functions *other,
                           struct err *e);
