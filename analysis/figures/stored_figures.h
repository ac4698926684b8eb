#pragma once

/*
 * The figures of a summary by site, in a form that is stored beside a trace, so that the summary
 * can be printed again without reading the memory events. They are valid for the division of call
 * stacks into sites by which they were counted, which is stored with them. trace/file/appendix.h
 * has the location.
 *
 * As bytes, all numbers LEB128 (negative ones as the two's complement of 64 bits):
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

/* The site of each call stack, by call stack id; ids from `count` on are of site 0. */
struct site_map {
    const uint32_t *of_callstack;
    size_t count;
};

/*
 * Takes the figures of a sweep over all pools: `by_site` and `by_callstack` number pools as
 * `selection` does. `f` need not be initialised. Returns 1; 0 if pools share a name, which the
 * selection treats as one; -1 with `e`. Release it only after 1.
 */
int stored_figures_take(struct stored_figures *f, const struct trace *t,
                        const struct selection *selection, const struct site_map *sites,
                        const struct accounting *by_site, const struct accounting *by_callstack,
                        struct err *e);
void stored_figures_release(struct stored_figures *f);

void stored_figures_encode(const struct stored_figures *f, struct buf *out);

/* `f` need not be initialised. ERR_INPUT, with the offset, for malformed bytes. */
int stored_figures_decode(struct stored_figures *f, struct view bytes, struct err *e);

/*
 * The times of the first and last allocation of each pool in the figures, 16 bytes each. `t` is the
 * trace that was counted.
 */
void stored_times_encode(const struct stored_figures *f, const struct trace *t, struct buf *out);

/* Gives them to the pools of a trace that stored_figures_make_pools made. ERR_INPUT: malformed. */
int stored_times_take(struct trace *t, struct view bytes, struct err *e);

/* Whether call stacks are divided into sites as when the figures were counted. */
bool stored_figures_fit(const struct stored_figures *f, const struct trace *t,
                        const struct site_map *sites);

/* Creates the pools, with their totals, in a trace without memory events. */
int stored_figures_make_pools(const struct stored_figures *f, struct trace *t, struct err *e);

/*
 * Fills newly initialised accountings as a sweep over the selection would, which selects pools
 * only. The figures must fit, and stored_figures_make_pools must have been called.
 */
int stored_figures_give(const struct stored_figures *f, const struct selection *selection,
                        const struct site_map *sites, struct accounting *by_site,
                        struct accounting *by_callstack, struct err *e);
