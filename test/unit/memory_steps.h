#ifndef TIDEMARK_TEST_MEMORY_STEPS_H
#define TIDEMARK_TEST_MEMORY_STEPS_H

/* Steps of a pool by its number, one at a time. */

#include "trace/store/memory_steps.h"

static inline int alloc_in(struct memory *m, uint32_t pool, uint64_t ptr, uint64_t size,
                           struct memory_place at, bool *fault, struct err *e)
{
    struct memory_aim aim;
    memory_aim_at(&aim, m->pools.at[pool], ptr);
    int got = memory_alloc(m, &aim, size, at, e);
    *fault = got > 0;
    return got < 0 ? -1 : 0;
}

static inline int free_in(struct memory *m, uint32_t pool, uint64_t ptr, struct memory_place at,
                          bool is_fault, bool *found, struct err *e)
{
    struct memory_aim aim;
    memory_aim_at(&aim, m->pools.at[pool], ptr);
    int got = memory_free(m, &aim, at, is_fault, e);
    *found = got == 0;
    return got < 0 ? -1 : 0;
}

#endif
