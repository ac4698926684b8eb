#pragma once

/* What grew between two times: the live blocks of each site at the end of both nanoseconds. */

#include <stdbool.h>
#include <stdint.h>

#include "analysis/figures/selection.h"
#include "analysis/names/frames.h"
#include "analysis/names/skiplist.h"
#include "base/err.h"
#include "base/vec.h"

struct growth_row {
    uint32_t pool;           /* index in selection.pools */
    struct frame_view frame; /* the site (sites.h) */
    bool no_callstack;
    uint64_t count_before, bytes_before;
    uint64_t count_after, bytes_after;
    uint64_t allocations, frees; /* between */
    uint32_t callstack;          /* of the newest block allocated between them; 0: none */
};

struct growth {
    int64_t from, to;            /* ns */
    VEC(struct growth_row) rows; /* those that changed, most grown first */
    uint64_t count_before, bytes_before, count_after, bytes_after; /* of all sites */
};

/* Signed difference of two counts, saturated at 2^63 - 1 either way. */
static inline int64_t growth_of(uint64_t before, uint64_t after)
{
    uint64_t by = after > before ? after - before : before - after;
    int64_t n = by < INT64_MAX ? (int64_t)by : INT64_MAX;
    return after > before ? n : -n;
}

/*
 * Of a trace of figures only, both times become the last ends of steps by then (stack_steps.h), and
 * the call stack of a row is one that allocated in the site's last step with an allocation.
 * ERR_CHECK if both are in one step.
 *
 * `to` must be later than `from`. `skip` NULL: the built-in rules. The selection must outlive `g`.
 * `p` is for selection_answer.
 */
int growth_begin(struct selection_pass *p, struct growth *g, struct selection *s,
                 const struct skiplist *skip, int64_t from, int64_t to, struct err *e);

/* The same in a separate sweep. */
int growth_build(struct growth *g, struct selection *s, const struct skiplist *skip, int64_t from,
                 int64_t to, struct err *e);
void growth_release(struct growth *g);
