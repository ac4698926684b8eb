#pragma once

/*
 * The data of the page (report/html/html.h), in bounded size: the history of html_series.h for the
 * most important pools, threads, allocation sites and call stacks, and their names. Importance is
 * the largest share of a pool's bytes, allocations, live bytes, temporary allocations, or use at
 * its peak. Everything else is combined as "other", and its number is stored.
 */

#include <stdbool.h>
#include <stdint.h>

#include "analysis/figures/summary.h"
#include "analysis/html/html_blocks.h"
#include "analysis/html/html_series.h"
#include "analysis/names/frames.h"
#include "analysis/figures/kernel_curve.h"
#include "analysis/questions/leaks.h"
#include "analysis/questions/resident_findings.h"
#include "base/err.h"
#include "base/map.h"
#include "base/vec.h"
#include "base/view.h"
#include "trace/store/frame_name.h"

#define PAGE_POOLS_MAX 24u /* separate ones; one more is for the others */
#define PAGE_THREADS_MAX 32u
#define PAGE_STEPS_MIN 16u /* call stacks are combined to keep at least this many steps */
#define PAGE_LEAKS_MAX 500u
#define PAGE_PLACES_MIN 32u   /* the minimum number of stacks that are not folded */
#define PAGE_STRING_MAX 1000u /* bytes shown of one name */

/* Bytes of the whole page. */
#define PAGE_SIZE 1200000u
#define PAGE_SIZE_MIN 500000u
#define PAGE_SIZE_MAX 64000000u

struct page_pool {
    struct view name; /* empty: all other pools */
    uint32_t count;   /* of pools: 1, or the number of the others */
    int64_t only;     /* its index in summary.pools, or -1 */
};

struct page_thread {
    struct view name; /* empty: unknown */
    uint64_t id;
    bool rest; /* all other threads */
};

struct page_site {
    struct frame_view frame;
    bool no_callstack;  /* allocations without a call stack */
    bool rest;          /* all other sites */
    uint32_t callstack; /* the one with most bytes; 0: none */
    struct view type;   /* of its blocks (types.h), that of most bytes; empty: unknown */
    bool more_types;    /* there are other types, or blocks of unknown type */
};

struct page_stack {
    uint32_t site;  /* index in sites */
    uint32_t node;  /* innermost; 0: combined with others of the same site */
    uint32_t begin; /* where the program begins in it (program_frames.h) */
    bool is_folded; /* stands for call stacks that the page does not distinguish */
    uint32_t rank;  /* of others: their number by importance, from 0 */
    uint32_t count; /* of call stacks that look like this */
};

/* The frame that stands for frames left out of folded call stacks. */
#define PAGE_LEFT_OUT "[frames left out]"

struct page_node {
    uint32_t parent; /* 0 = root */
    uint32_t frame;  /* index in frames */
};

struct page_data {
    const struct summary *summary;
    size_t size; /* the page is to have at most so many bytes */
    VEC(struct page_pool) pools;
    VEC(struct page_thread) threads; /* the last one is "rest", if there is one */
    VEC(struct page_site) sites;     /* the first one is "rest" */
    VEC(struct page_stack) stacks;   /* the first one is "rest" */
    VEC(struct page_node) nodes;     /* the first one is the root */
    VEC(struct frame_view) frames;
    uint32_t left_out; /* the frame PAGE_LEFT_OUT */
    uint32_t ranked;   /* call stacks that are not folded */
    struct page_series series;
    struct page_map map;        /* of those of the pools shown, as the blocks */
    struct page_blocks blocks;  /* those of the pools shown */
    struct kernel_curve kernel; /* of the slots of the series */
    bool looked;                /* at the pages; then, of the look with the most resident bytes: */
    struct resident resident;
    struct resident_findings findings;
    struct leaks leaks; /* of everything shown; pools are those of the summary's selection */
    int64_t from,
        to; /* ns; of the first memory event shown, and the last one or reading of the RSS */
    /*
     * Of a trace of figures only: the length of the steps in which its use over time is known, ns;
     * 0 with events. The page then has one step, one thread ("rest") for all, and no single blocks.
     */
    int64_t figure_step;
    uint64_t other_threads, other_sites,
        other_stacks;              /* the numbers of those combined as "other" */
    char cut_name[FRAME_CUT_SIZE]; /* a frame's function, which it holds */
    uint64_t text;                 /* bytes of names so far */
};

/*
 * `s` is a summary with stacks = true and by = GROUP_THREAD, made with `skip`; it must outlive `d`,
 * which need not be initialised. `d` is valid as long as the trace. What is chosen fits a page of
 * about `size` bytes, PAGE_SIZE_MIN to PAGE_SIZE_MAX; html_write makes it fit.
 */
int page_data_build(struct page_data *d, struct trace *t, const struct summary *s,
                    const struct skiplist *skip, size_t size, struct err *e);
void page_data_release(struct page_data *d);
