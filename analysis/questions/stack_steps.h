#pragma once

/*
 * The use of each call stack of a pool in steps of time, and its blocks that are live at the end:
 * what leaks and growth need of figures. A step has 2^shift ns, step i begins at i << shift, and
 * only steps in which the call stack allocated or freed are kept. There are at most STACK_STEPS of
 * them, and STACK_STEPS_ROOM of all call stacks together: when there are more, two become one. A
 * part of figures (figure_parts.h).
 *
 * As bytes (figure_bytes.h): shift, call stacks; of all call stacks their distances from the one
 * before, their numbers of steps, whether blocks are live; of all steps the distance from the one
 * before of the call stack; then low, bytes, live and allocations of all steps; and of each call
 * stack with live blocks first, last, and spread.
 */

#include <stdint.h>

#include "analysis/figures/figures_only.h"
#include "analysis/figures/selection.h"
#include "base/err.h"
#include "base/vec.h"
#include "base/view.h"

#define STACK_STEPS 64u
#define STACK_STEPS_ROOM ((size_t)1 << 20)

struct stack_step {
    uint64_t low, bytes;  /* bytes in use: the minimum, and at the end of the step */
    uint64_t allocations; /* in it */
    uint32_t live;        /* blocks at the end of the step */
    uint32_t number;
};

/* The blocks of a call stack that are live at the end. */
struct stack_live {
    int64_t first, last; /* ns; when the oldest and the newest were allocated */
    uint64_t spread;     /* bit i: one was allocated in step i; 0: there are none */
};

struct stack_history {
    uint32_t callstack;
    VEC(struct stack_step) steps;
    struct stack_live live;
};

struct stack_steps {
    uint32_t pool; /* index in selection.pools */
    unsigned shift;
    VEC(struct stack_history) stacks; /* in order of call stacks */
};

extern const struct figures_part stack_steps_part;

/* Decodes; `s` need not be initialised, and `most` is the highest call stack that there may be. */
int stack_steps_decode(struct stack_steps *s, struct view bytes, uint32_t most, struct err *e);
void stack_steps_release(struct stack_steps *s);

/* Doubles the steps until they have 2^shift ns. */
void stack_steps_coarsen(struct stack_steps *s, unsigned shift);

/* Those of several pools, whose steps are equally long. */
struct stack_pools {
    unsigned shift;
    VEC(struct stack_steps) list;
};

/* Of the selected pools of a trace of figures only; `p` need not be initialised. */
int stack_pools_read(struct stack_pools *p, struct selection *s, struct err *e);
void stack_pools_release(struct stack_pools *p);

/* The call stack at step `number`; .allocations is 0 if it did nothing in it. */
struct stack_step stack_history_at(const struct stack_history *h, uint64_t number);
