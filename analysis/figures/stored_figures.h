#ifndef TIDEMARK_ANALYSIS_FIGURES_STORED_FIGURES_H
#define TIDEMARK_ANALYSIS_FIGURES_STORED_FIGURES_H

/*
 * The figures of a summary by site, as they can be kept beside a trace: whoever asks for that
 * summary again need not go through the memory events. They hold for the division of call stacks
 * into sites that they were counted by, which is kept with them. trace/file/appendix.h says
 * where.
 *
 * As bytes, all numbers LEB128 (of negative ones the two's complement of 64 bits):
 *
 *     pools, and for each: key, low, high, disorder, its figures in the order of struct
 *     pool_figures, sites, call stacks; for each site its struct counter; for each call stack its
 *     distance from the one before, its site (from 0), allocations, bytes
 */

#include <stdbool.h>
#include <stdint.h>

#include "analysis/figures/accounting.h"
#include "analysis/figures/selection.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/vec.h"
#include "base/view.h"
#include "trace/store/store.h"

struct stored_callstack {
    uint32_t callstack; /* 0: none */
    uint32_t site;      /* index in stored_pool.sites */
    uint64_t count;     /* allocations */
    uint64_t bytes;     /* of all of them */
};

struct stored_pool {
    uint64_t key; /* client pointer of the name */
    uint64_t low_address, high_address;
    uint64_t disorder; /* see struct pool */
    struct pool_figures figures;
    VEC(struct counter) sites;
    VEC(struct stored_callstack) callstacks; /* ascending; each has allocations */
};

struct stored_figures {
    VEC(struct stored_pool) pools;
};

/* Which site a call stack belongs to, by call stack id; ids from `count` on are of site 0. */
struct site_map {
    const uint32_t *of_callstack;
    size_t count;
};

/*
 * Takes the figures of a sweep over all pools: `by_site` and `by_callstack` number pools as
 * `selection` does. `f` need not be initialised. 1, or 0 when pools share a name, which are one
 * there, or -1 with `e`; release it only after 1.
 */
int stored_figures_take(struct stored_figures *f, const struct trace *t,
                        const struct selection *selection, const struct site_map *sites,
                        const struct accounting *by_site, const struct accounting *by_callstack,
                        struct err *e);
void stored_figures_release(struct stored_figures *f);

void stored_figures_encode(const struct stored_figures *f, struct buf *out);

/* `f` need not be initialised. ERR_INPUT, naming the offset, for bytes that are no such figures. */
int stored_figures_decode(struct stored_figures *f, struct view bytes, struct err *e);

/* Whether call stacks are divided into sites as they were when the figures were counted. */
bool stored_figures_fit(const struct stored_figures *f, const struct trace *t,
                        const struct site_map *sites);

/* Makes the pools in a trace that has names only, with their totals. */
int stored_figures_make_pools(const struct stored_figures *f, struct trace *t, struct err *e);

/*
 * Gives accountings, just initialised, what a sweep over the selection, one of pools only, would.
 * The figures must fit, and stored_figures_make_pools have made the pools.
 */
int stored_figures_give(const struct stored_figures *f, const struct selection *selection,
                        const struct site_map *sites, struct accounting *by_site,
                        struct accounting *by_callstack, struct err *e);

#endif
