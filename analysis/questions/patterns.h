#ifndef TIDEMARK_ANALYSIS_QUESTIONS_PATTERNS_H
#define TIDEMARK_ANALYSIS_QUESTIONS_PATTERNS_H

/*
 * What each site does with its blocks that costs time or room: grows by copying, makes temporary
 * blocks in loops, takes large blocks that never grow, loses room to rounding. One sweep; memory
 * follows sites, threads and the live blocks that have grown.
 *
 * Events tell sizes, times and who; not what was read or written. So nothing here says how much of
 * a block was used. What comes nearest: a block that gave way to a smaller one was too large, by
 * its owner's own judgement; and a site that takes large blocks of one size only, of which none
 * ever grew, may or may not need them.
 */

#include <stdbool.h>
#include <stdint.h>

#include "analysis/figures/selection.h"
#include "analysis/names/frames.h"
#include "analysis/names/skiplist.h"
#include "base/err.h"
#include "base/vec.h"

#define PATTERN_LARGE (UINT64_C(64) << 10) /* bytes, from which on never growing is reported */

/*
 * A step of growth: a thread allocates a larger block, and the very next thing it does in that pool
 * is to free a smaller one that came from the same site. Or it frees a block, and the very next
 * thing is a larger one allocated at the site of that free, which is what a reported realloc looks
 * like. Steps follow each other in a chain: a vector's life. The same with a smaller block is a
 * step down. Blocks that replace each other by chance make as many steps down as up: see
 * pattern_grows.
 */
struct pattern_row {
    uint32_t pool;           /* index in selection.pools */
    struct frame_view frame; /* the site (sites.h) */
    bool no_callstack;
    uint32_t callstack; /* of its largest block */
    uint64_t count, bytes;
    uint64_t largest;    /* block */
    uint64_t live_bytes; /* at the end */
    uint64_t peak_bytes; /* its own highest live_bytes */

    uint64_t chains;     /* begun here */
    uint64_t grown;      /* steps of growth */
    uint64_t copied;     /* bytes of the smaller blocks, where the address changed */
    uint64_t longest;    /* chain, in steps */
    uint64_t down;       /* steps to a smaller block */
    uint64_t given_back; /* bytes, by steps down of blocks that had grown */

    uint64_t temporary, temporary_bytes; /* see struct pool_figures */
    uint64_t longest_run; /* of temporary blocks on one thread, with nothing between */

    uint64_t only_size; /* bytes: all blocks are of this size; 0: they are not */

    uint64_t waste;      /* what glibc's malloc would add: see glibc_chunk */
    uint64_t live_waste; /* at the end */
    uint64_t peak_waste; /* highest of the live blocks */
};

/* Growth is not chance: steps up are more than four times as many as steps down. */
static inline bool pattern_grows(const struct pattern_row *r)
{
    return r->grown / 4 > r->down || (r->grown && r->down == 0);
}

/* Large blocks of one size. */
static inline bool pattern_never_grew(const struct pattern_row *r)
{
    return r->only_size >= PATTERN_LARGE && !pattern_grows(r);
}

struct patterns {
    VEC(struct pattern_row) rows; /* those that have blocks, most bytes first */
};

/* `p` need not be initialised. `skip` NULL: the built-in rules. */
int patterns_build(struct patterns *p, struct selection *s, const struct skiplist *skip,
                   struct err *e);
void patterns_release(struct patterns *p);

enum pattern_order {
    PATTERN_BY_BYTES,
    PATTERN_BY_COPIED,
    PATTERN_BY_TEMPORARY,
    PATTERN_BY_PEAK,
    PATTERN_BY_WASTE, /* peak_waste */
};

void patterns_sort(struct patterns *p, enum pattern_order order);

#endif
