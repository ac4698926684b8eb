#pragma once

/*
 * The type of the blocks of each call stack, from the functions of allocators and containers at its
 * inner end (element_type.h): the innermost one that has a type decides. Functions beyond the first
 * one of the program are ignored. Otherwise there is no type, nor if the sure types of
 * functions differ, or if the function is merged with others (symbols/elf/merged_name.h).
 */

#include <stdint.h>

#include "analysis/names/program_frames.h"
#include "base/err.h"
#include "base/vec.h"
#include "base/view.h"
#include "trace/store/store.h"

#define TYPE_NONE 0u

struct types {
    VEC(struct view) names;    /* by number, all different; that of TYPE_NONE is empty */
    VEC(char *) texts;         /* of the names */
    struct pageable *pageable; /* of of_callstack, the trace's; NULL: the heap */
    uint32_t *of_callstack;    /* call stack id → number */
    size_t callstack_count;    /* length of of_callstack: the number of call stacks + 1 */
};

/* `t` need not be initialised. `program` may be reused. */
int types_build(struct types *t, struct program_frames *program, struct err *e);
void types_release(struct types *t);

static inline uint32_t types_of(const struct types *t, uint32_t callstack)
{
    return callstack < t->callstack_count ? t->of_callstack[callstack] : TYPE_NONE;
}
