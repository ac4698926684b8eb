#ifndef TIDEMARK_ANALYSIS_FIGURES_ZONE_CALLS_H
#define TIDEMARK_ANALYSIS_FIGURES_ZONE_CALLS_H

/*
 * What single calls of zones cost: one time that a zone was open is a call. Fed by moment.h as it
 * walks the zones of each thread. Memory follows zones that are open at once and the pools that
 * they allocate in, not the number of calls.
 */

#include <stdint.h>

#include "analysis/figures/selection.h"
#include "base/err.h"
#include "base/map.h"
#include "base/vec.h"

/* All calls of zones of one name, in one pool. Sizes in bytes. */
struct zone_cost {
    uint64_t calls;      /* in all, whether they allocated or not */
    uint64_t allocating; /* of them: those that allocated themselves, not within zones inside */
    uint64_t count_max;  /* most allocations of a call's own */
    uint64_t bytes_max;
    /* The same with the zones inside: sums over all calls, and the most of one. */
    uint64_t all_count, all_bytes;
    uint64_t all_count_max, all_bytes_max;
};

/* What an open zone did in a pool so far: by itself, and in zones inside it that have ended. */
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

/* Zero-initialise, and set the selection, which says what a call is: see selection_wants_zone. */
void zone_calls_release(struct zone_calls *z);

/* A zone begins; `end` is INT64_MAX when it never ends. */
int zone_calls_begin(struct zone_calls *z, uint32_t label, uint16_t thread, int64_t begin,
                     int64_t end, struct err *e);

/* It allocates. */
int zone_calls_add(struct zone_tallies *t, uint32_t pool, uint64_t size, struct err *e);

/* It is over; `parent` is the one around it, NULL when there is none. Releases the tallies. */
int zone_calls_end(struct zone_calls *z, uint32_t label, struct zone_tallies *t,
                   struct zone_tallies *parent, struct err *e);

/* False when zones of that name did nothing in the pool. */
bool zone_calls_cost(const struct zone_calls *z, uint32_t pool, uint32_t label,
                     struct zone_cost *out);

#endif
