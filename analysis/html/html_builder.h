#pragma once

/*
 * The page's data while it is being chosen: which pools, threads, sites and call stacks get
 * separate entries. For html_data.c, html_choose.c and html_stacks.c only.
 */

#include "analysis/figures/cut_stacks.h"
#include "analysis/html/html_data.h"
#include "analysis/html/html_tree.h"
#include "analysis/names/program_frames.h"

#define HTML_MEASURES 5

/*
 * The limits of call stacks and nodes are for call stacks that leave hardly any bytes to the
 * others. As long as the others would have more, there may be up to so many times as many: steps of
 * time are longer instead.
 */
#define HEAVY_SHARE 0.008
#define HEAVY_TIMES 2

/* A candidate for a separate entry, and its importance. */
struct html_candidate {
    double share;
    double
        shares[HTML_MEASURES]; /* of bytes, use at the peak, live bytes, blocks, temporary ones */
    uint32_t number;           /* of a thread, a site, or a call stack */
    uint32_t row;              /* in summary.sites, for call stacks */
};

struct html_candidates {
    struct html_candidate *at;
    size_t len;
    size_t cap;
};

/* What fits the page. */
struct html_limits {
    size_t cells, histogram, map, lives; /* see page_series_options */
    size_t blocks;                       /* of the list of html_blocks.h */
    size_t sites, stacks, nodes;
    size_t folded_nodes; /* added for folded call stacks */
    size_t text;         /* bytes of names, before compression */
};

struct html_builder {
    struct page_data *d;
    struct trace *trace;
    const struct summary *s;
    struct selection selection;  /* a copy of the summary's */
    struct selection_pass leaks; /* shares the first pass */
    uint32_t *pools;             /* pool of the trace → of the page */
    uint32_t *threads;           /* thread number → of the page */
    uint32_t *stacks;            /* call stack id → of the page */
    uint8_t *owners;             /* call stack id → index of its site among the map's owners */
    VEC(uint32_t) sites;         /* stack of the page → its site */
    size_t stack_limit;
    struct program_frames program;
    struct map site_numbers; /* the summary's site → of the page */
    struct map site_rests;   /* site of the page → stack for its other call stacks */
    uint32_t *node_numbers;  /* node of the trace (node_place) → of the page; 0: not there */
    struct cut_stacks cut;
    struct map frame_numbers; /* frame of the trace, and which of its functions → of the page */
    struct page_tree tree;
    VEC(uint32_t) path; /* nodes of a call stack that the page does not have, innermost first */
    struct html_candidates candidates;
    size_t folded_nodes;       /* so far */
    bool all_threads;          /* see page_series_options */
    struct timeline use;       /* of a trace of figures only */
    struct html_limits limits; /* fewer sites and stacks when there is too much history for all */
};

#define UNASSIGNED UINT32_MAX

/* ---- html_choose.c: what matters, and pools, threads and sites */

/*
 * Adds a thread, site or call stack of a pool of the summary to the candidates. `row`: of the
 * summary's list.
 */
int html_add_candidate(struct html_builder *b, const struct counter *c, uint32_t pool,
                       uint32_t number, size_t row, struct err *e);

/* One candidate for each number, with its largest share; the largest first. */
void html_rank(struct html_candidates *c);
/* Reorders ranked candidates of `b` by what would be left out with each. */
void html_rank_by_rest(struct html_builder *b);

/* Adds a name to those of the page, which count towards its limit of text. */
int html_count_text(struct html_builder *b, struct view text, struct err *e);

int html_choose_pools(struct html_builder *b, struct err *e);
int html_choose_threads(struct html_builder *b, struct err *e);
int html_choose_sites(struct html_builder *b, struct err *e);

/* ---- html_stacks.c */

/* Allocates what the choice needs. */
int html_stacks_begin(struct html_builder *b, struct err *e);

/* After the sites: the call stacks with an entry, and where the others are counted. */
int html_choose_stacks(struct html_builder *b, struct err *e);
