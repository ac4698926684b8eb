#pragma once

/*
 * How sites waste time or space: growth by copying, temporary blocks in loops, large blocks that
 * never grow, rounding. One sweep; memory grows with sites, threads and the live blocks that have
 * grown.
 *
 * Events have sizes, times and call stacks, but not which bytes were read or written. So nothing
 * here shows how much of a block was used. There are two hints. A block that was replaced by a
 * smaller one was too large. A site whose large blocks all have one size and never grew may not
 * need that size.
 */

#include <stdbool.h>
#include <stdint.h>

#include "analysis/figures/figures_only.h"
#include "analysis/figures/selection.h"
#include "analysis/names/frames.h"
#include "analysis/names/skiplist.h"
#include "base/err.h"
#include "base/vec.h"

/* Bytes; smaller blocks are not reported as never growing. */
#define PATTERN_LARGE (UINT64_C(64) << 10)

/* Allocations of a pool; a block that lives for fewer is short-lived. */
#define PATTERN_SHORT 100u

/*
 * A growth step: a thread allocates a larger block, and its next step in that pool is to free a
 * smaller one of the same site. Or it frees a block, and its next step is a larger allocation at
 * the site of that free, which is how a reported realloc looks. Steps form a chain, the life of a
 * vector. The same with a smaller block is a step down. Blocks that replace each other by chance
 * have as many steps down as up: see pattern_grows.
 */
struct pattern_row {
    uint32_t pool;           /* index in selection.pools */
    struct frame_view frame; /* the site (sites.h) */
    bool no_callstack;
    uint32_t callstack; /* of its largest block */
    uint64_t count, bytes;
    uint64_t largest;    /* size of the largest block */
    uint64_t live_bytes; /* at the end */
    uint64_t peak_bytes; /* its highest live_bytes */

    uint64_t chains;     /* begun at this site */
    uint64_t grown;      /* steps of growth */
    uint64_t copied;     /* bytes of the smaller blocks, if the address changed */
    uint64_t longest;    /* steps of the longest chain */
    uint64_t down;       /* steps to a smaller block */
    uint64_t given_back; /* bytes, by steps down of blocks that had grown */

    uint64_t temporary, temporary_bytes; /* see struct pool_figures */
    uint64_t longest_run; /* of temporary blocks on one thread, without other events between */

    /*
     * Short-lived blocks that are not temporary: freed before PATTERN_SHORT further allocations of
     * the pool, of other sites and threads, too. The sums of these allocations and of the blocks'
     * lifetimes. 0 if several pools have the name: their allocations are numbered apart.
     */
    uint64_t brief, brief_bytes, brief_allocations;
    uint64_t brief_time; /* ns */

    uint64_t only_size; /* bytes: all blocks have this size; 0: they do not */

    uint64_t waste;      /* bytes that glibc's malloc would add: see glibc_chunk */
    uint64_t live_waste; /* at the end */
    uint64_t peak_waste; /* maximum of the live blocks */
};

/* Growth is not by chance: steps up are more than four times as many as steps down. */
static inline bool pattern_grows(const struct pattern_row *r)
{
    return r->grown / 4 > r->down || (r->grown && r->down == 0);
}

/* Most blocks lived for a few allocations only. A few such blocks are not worth a row. */
static inline bool pattern_is_brief(const struct pattern_row *r)
{
    enum { LEAST = 16 };
    return r->brief >= LEAST && r->brief > r->count / 2;
}

/* Large blocks of one size. */
static inline bool pattern_never_grew(const struct pattern_row *r)
{
    return r->only_size >= PATTERN_LARGE && !pattern_grows(r);
}

struct patterns {
    VEC(struct pattern_row) rows; /* those with blocks, most bytes first */
    /*
     * Of a trace of figures only: growth steps and runs of temporary blocks are within one call
     * stack of the site, peak_waste is the sum of those of its call stacks, which it does not
     * exceed.
     */
    bool by_callstack;
};

/* Rows by call stack. */
extern const struct figures_part patterns_part;

/*
 * `p` need not be initialised. `skip` NULL: the built-in rules. `pass` is for selection_answer.
 */
int patterns_begin(struct selection_pass *pass, struct patterns *p, struct selection *s,
                   const struct skiplist *skip, struct err *e);

/* The same in a separate sweep. */
int patterns_build(struct patterns *p, struct selection *s, const struct skiplist *skip,
                   struct err *e);
void patterns_release(struct patterns *p);

enum pattern_order {
    PATTERN_BY_BYTES,
    PATTERN_BY_COPIED,
    PATTERN_BY_TEMPORARY,
    PATTERN_BY_BRIEF,
    PATTERN_BY_PEAK,
    PATTERN_BY_WASTE, /* peak_waste */
};

void patterns_sort(struct patterns *p, enum pattern_order order);
