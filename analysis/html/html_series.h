#pragma once

/*
 * The history of a trace's memory for the page: use over time for each pool, and for each key
 * (pool, allocating thread and call stack) its sums in each step of time. One sweep; memory is
 * bounded by the limits below, not by the number of events.
 *
 * Figures of any range of whole steps are exact: sums of a range, and what was live at its begin
 * and end. Every cell also has the use of its key at the pool's peak within the step, which gives
 * the composition of each pool's peak within a range (with the definitions of
 * analysis/figures/accounting.h).
 */

#include <stdbool.h>
#include <stdint.h>

#include "analysis/figures/selection.h"
#include "analysis/figures/summary.h"
#include "analysis/html/html_cells.h"
#include "analysis/html/html_lives.h"
#include "analysis/html/html_map.h"
#include "analysis/questions/timeline.h"
#include "base/err.h"
#include "base/vec.h"
#include "trace/store/memory.h"

#define PAGE_SLOTS 1024u     /* points of the timeline, and the maximum number of steps */
#define PAGE_KEYS_MAX 65536u /* separate keys; see page_series.folded */

/* Values of the cells of keys. PEAK: live at the peak within the step, minus live at its begin. */
enum page_value {
    PAGE_ALLOCS,
    PAGE_ALLOC_BYTES,
    PAGE_FREES,
    PAGE_FREE_BYTES,
    PAGE_TEMPORARY,
    PAGE_TEMPORARY_BYTES,
    PAGE_PEAK,
    PAGE_PEAK_BYTES,
    PAGE_VALUES,
};

/*
 * Histograms: sizes of blocks when they are allocated, lifetimes when they are freed. Class c holds
 * 2^(c-1) … 2^c - 1 bytes or nanoseconds, class 0 holds 0.
 */
enum page_histogram { PAGE_SIZES, PAGE_LIFETIMES, PAGE_HISTOGRAMS };
#define PAGE_CLASSES 64u

struct page_key {
    uint32_t pool, thread, stack; /* numbers of the page */
};

struct page_point {
    uint64_t max;    /* highest use within the slot, bytes, including its begin */
    uint64_t end;    /* use at its end */
    uint64_t blocks; /* live at its end */
    uint64_t allocs; /* within it */
};

struct page_series_options {
    const uint32_t *pools;   /* pool of the trace → pool of the page; pool_count: not shown */
    uint32_t pool_count;     /* of the page; at most PAGE_MAP_POOLS */
    const uint32_t *threads; /* thread number of the trace → thread of the page */
    size_t thread_limit;     /* length of `threads`; numbers beyond it are thread_other */
    uint32_t thread_count;   /* of the page */
    uint32_t thread_other;
    const uint32_t *stacks; /* call stack id → stack of the page */
    size_t stack_limit;     /* length of `stacks`; ids beyond it are stack_other */
    uint32_t stack_other;
    const uint32_t *sites; /* stack of the page → its site; NULL: no lives are counted */
    const uint8_t *owners; /* call stack id → site among the owners of html_map.h; NULL: others */
    struct page_map *map;  /* of all these blocks; it gets their owners */
    int64_t from, to;      /* ns; of the first and the last event */
    struct selection *selection; /* which allocations; its pools of one name are in one pool */
    uint32_t steps_min;          /* there are so many steps even if that is too many cells */
    size_t cells_max;            /* of keys; 0 in each of these: no limit */
    size_t histogram_max;        /* cells of the histograms */
    size_t map_max;              /* cells of the memory map */
    size_t lives_max;            /* pairs of html_lives.h */
    bool all_threads;            /* histograms combine all threads as thread 0 */
};

struct page_series_pool;

struct page_series {
    struct page_series_options options;
    uint64_t slot_ns;
    struct page_series_pool *pools;
    uint32_t *shown_as; /* pool of the selection → of the page, or pool_count */
    VEC(struct page_key) keys;
    VEC(uint32_t) newest_key; /* + 1, by stack * thread_count + thread; 0: none */
    VEC(uint32_t) key_before; /* + 1, by key: that of another pool; 0: none */
    VEC(uint64_t) epochs;     /* by key: the peak of its pool to which the sums of PEAK belong */
    uint64_t folded;          /* allocations without a separate key, since there was no room */
    struct page_lives lives;  /* rows: site * pool_count + pool; the caller finishes it */
    struct page_cells cells;
    struct page_cells histogram; /* keys: page_histogram_key */
    struct page_cells blocks;    /* keys: pieces of the map; values: see page_series.c */
};

/*
 * Reads the whole history, and shares the pass with another observer unless that is NULL. `s` need
 * not be initialised; the arrays of `options` must outlive it.
 */
int page_series_build(struct page_series *s, const struct page_series_options *options,
                      const struct memory_observer *also, struct err *e);

/*
 * The same of a trace of figures only: one step with the sums of each call stack, as of
 * thread_other, and a timeline whose points have the figures of the whole bucket of `use` that they
 * begin in. The map, histograms and lives are empty. Each of the summary's pools is a pool of the
 * page by the same number.
 */
int page_series_figures(struct page_series *s, const struct page_series_options *options,
                        const struct summary *sums, const struct timeline *use, struct err *e);
void page_series_release(struct page_series *s);

/* The timeline of a pool: PAGE_SLOTS points. */
const struct page_point *page_series_points(const struct page_series *s, uint32_t pool);

static inline uint32_t page_histogram_key(const struct page_series_options *o, uint32_t pool,
                                          uint32_t thread, enum page_histogram which,
                                          unsigned class)
{
    uint32_t owner = pool * o->thread_count + (o->all_threads ? 0 : thread);
    return (owner * PAGE_HISTOGRAMS + which) * PAGE_CLASSES + class;
}
