#ifndef TIDEMARK_CLIENT_STACK_BOUNDS_H
#define TIDEMARK_CLIENT_STACK_BOUNDS_H

/* How far up the stack of a thread may be read. */

#include "client/state.h"

/*
 * Memory from `low`, which is `sp`, up to `high` may be read. What is not known to be more is the
 * rest of the page that `sp` is in.
 */
void stack_bounds(struct thread *t, uint64_t sp, uint64_t *low, uint64_t *high);

#endif
