#pragma once

/* How far up a thread's stack may be read. */

#include "client/state.h"

/*
 * Finds the mapping that contains an address. False: there is none, or the thread has asked for too
 * many, since this is slow.
 */
bool stack_bounds_mapping(struct thread *t, uint64_t address, uint64_t *low, uint64_t *high);

/* The slow path of the next function. */
void stack_bounds_find(struct thread *t, uint64_t sp, uint64_t *high);

/*
 * Memory from `low`, which is `sp`, to `high` may be read. If nothing is known, that is the rest of
 * the page of `sp`.
 */
static inline void stack_bounds(struct thread *t, uint64_t sp, uint64_t *low, uint64_t *high)
{
    *low = sp & ~UINT64_C(7);
    if (client_likely(sp >= t->stack_low && sp < t->stack_high))
        *high = t->stack_high;
    else
        stack_bounds_find(t, sp, high);
}
