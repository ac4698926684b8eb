#pragma once

/*
 * A look at the pages of a process (trace/store/page_look.h) joined with the blocks that were live
 * then: what each site holds resident, and which sites keep the free parts of pages from being
 * returned. A block counts if it was allocated by the look's beginning and not freed by then.
 */

#include <stdbool.h>
#include <stdint.h>

#include "analysis/figures/resident_fact.h"
#include "analysis/figures/selection.h"
#include "analysis/names/frames.h"
#include "analysis/names/skiplist.h"
#include "base/err.h"
#include "base/vec.h"

/*
 * Bytes of blocks by what their pages were. `unsure` and `swapped`: see look_area. `outside`: in no
 * mapping that was read, or of blocks that overlap others of their pool.
 */
struct resident_bytes {
    uint64_t present, swapped, absent, unsure, outside;
};

/* The blocks of a site, or those of it from one call stack. */
struct resident_row {
    uint32_t pool;           /* index in selection.pools */
    uint32_t site;           /* its number (sites.h) */
    struct frame_view frame; /* the site's */
    bool no_callstack;
    uint32_t callstack;              /* that of the largest block */
    size_t first_stack, stack_count; /* of a site: a range of resident.stacks */
    uint64_t largest;                /* its bytes */
    uint64_t count, bytes;
    struct resident_bytes of; /* these bytes */
    /* Those of them that also lie in a block of another pool, which lies within this one. */
    struct resident_bytes nested;
    /*
     * Free bytes of resident pages that also hold blocks. Those of a page are divided equally among
     * its blocks, but those that lie within others.
     */
    uint64_t pinned;
};

/* Resident bytes of a pool's blocks that lie within blocks of another pool, which keep them. */
struct resident_within {
    uint32_t pool, keeper; /* indices in selection.pools */
    uint64_t present;
};

struct resident {
    const struct page_look *look;
    struct resident_shares shares;
    VEC(struct resident_row) rows;      /* sites: most resident and pinned bytes first */
    VEC(struct resident_row) stacks;    /* call stacks of each site, in that order */
    struct resident_row total;          /* of all rows; bytes that are in two of them count once */
    VEC(struct resident_within) within; /* most bytes first */
    uint64_t empty; /* resident bytes of the overhead in pages without any block */
    struct {
        uint64_t heaps, present, blocks; /* resident bytes, and those of them in blocks */
    } arenas;                            /* of glibc, but the first one: see AREA_ARENA */
    uint64_t recorder; /* resident bytes of Tidemark's recording, among the others */
};

/*
 * `r` need not be initialised; `look` must outlive it. Only selected blocks have rows and count as
 * blocks in the shares. Blocks in a pool "mmap" have rows only: they are mappings.
 */
int resident_build(struct resident *r, struct selection *s, const struct skiplist *skip,
                   const struct page_look *look, struct err *e);
void resident_release(struct resident *r);

/* Of pages that the process maps alone, or that are of files. */
uint64_t resident_bytes(const struct page_look *l);

/* The last look whose resident bytes are within 1 % of the most; NULL: there is none. */
const struct page_look *resident_highest(const struct trace *t);

/*
 * Look `number` of the trace, from 1; 0: the highest. NULL with ERR_INPUT: the trace has none, or
 * ERR_USAGE: not so many.
 */
const struct page_look *resident_find_look(const struct trace *t, uint64_t number, struct err *e);

/* Adds the fact (resident_fact.h) of the highest look, if there is one, and sets t->resident. */
int resident_note(struct trace *t, struct err *e);
