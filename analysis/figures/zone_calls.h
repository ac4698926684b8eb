#pragma once

/*
 * The allocations of single calls of zones: a call is one execution of a zone. moment.h calls this
 * while it reads the zones of each thread. Memory grows with zones that are open at once and the
 * pools in which they allocate, not with the number of calls.
 */

#include <stdint.h>

#include "analysis/figures/selection.h"
#include "base/err.h"
#include "base/map.h"
#include "base/vec.h"

/* All calls of zones of one name, in one pool. Sizes in bytes. */
struct zone_cost {
    uint64_t calls;      /* all, with or without allocations */
    uint64_t allocating; /* of them: those with own allocations, outside of inner zones */
    uint64_t count_max;  /* maximum number of a call's own allocations */
    uint64_t bytes_max;
    /* The same with inner zones: sums over all calls, and the maximum of one. */
    uint64_t all_count, all_bytes;
    uint64_t all_count_max, all_bytes_max;
};

/*
 * The allocations of an open zone in a pool so far: its own, and those of inner zones that have
 * ended.
 */
struct zone_tally {
    uint32_t pool;
    uint64_t count, bytes;
    uint64_t all_count, all_bytes;
};

struct zone_tallies {
    VEC(struct zone_tally) list; /* in order of pools */
};

struct zone_calls {
    const struct selection *selection;
    VEC(uint64_t) calls; /* by label */
    VEC(struct zone_cost) costs;
    struct map numbers; /* pool << 32 | label → index in costs */
};

/* Zero-initialise, and set the allocator of `numbers` and the selection, which defines a call: see
 * selection_wants_zone. */
void zone_calls_release(struct zone_calls *z);

/* Begins a zone; `end` is INT64_MAX if it never ends. */
int zone_calls_begin(struct zone_calls *z, uint32_t label, uint16_t thread, int64_t begin,
                     int64_t end, struct err *e);

/* Counts an allocation of it. */
int zone_calls_add(struct zone_tallies *t, uint32_t pool, uint64_t size, struct err *e);

/* Ends it; `parent` is the zone around it, NULL if there is none. Releases the tallies. */
int zone_calls_end(struct zone_calls *z, uint32_t label, struct zone_tallies *t,
                   struct zone_tallies *parent, struct err *e);

/* False if zones of that name did nothing in the pool. */
bool zone_calls_cost(const struct zone_calls *z, uint32_t pool, uint32_t label,
                     struct zone_cost *out);
