#ifndef TIDEMARK_CLIENT_STACK_BOUNDS_H
#define TIDEMARK_CLIENT_STACK_BOUNDS_H

/* How far up the stack of a thread may be read. */

#include "client/state.h"

/* The slow part of what follows. */
void stack_bounds_find(struct thread *t, uint64_t sp, uint64_t *high);

/*
 * Memory from `low`, which is `sp`, up to `high` may be read. What is not known to be more is the
 * rest of the page that `sp` is in.
 */
static inline void stack_bounds(struct thread *t, uint64_t sp, uint64_t *low, uint64_t *high)
{
    *low = sp & ~UINT64_C(7);
    if (client_likely(sp >= t->stack_low && sp < t->stack_high))
        *high = t->stack_high;
    else
        stack_bounds_find(t, sp, high);
}

#endif
