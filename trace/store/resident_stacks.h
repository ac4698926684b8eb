#pragma once

/*
 * What the live blocks of each call stack had resident at the look with the most resident bytes
 * (page_look.h). It is stored beside the trace, so that a summary needs no events for it.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/vec.h"
#include "base/view.h"

struct resident_stack {
    uint64_t pool;      /* client pointer of the name; of pools of one name, any */
    uint32_t callstack; /* 0: none */
    uint64_t present;   /* resident bytes of its blocks */
    uint64_t nested;    /* of them: also in blocks of other pools, which lie within its blocks */
};

struct resident_stacks {
    bool known; /* there was a look; call stacks that are missing had no live blocks then */
    VEC(struct resident_stack) list;
};

void resident_stacks_release(struct resident_stacks *r);

/* As bytes, for each: u64 pool, u32 call stack, u64 present, u64 nested. */
void resident_stacks_encode(const struct resident_stacks *r, struct buf *out);

/* `r` need not be initialised. ERR_INPUT for malformed bytes. */
int resident_stacks_decode(struct resident_stacks *r, struct view bytes, struct err *e);
