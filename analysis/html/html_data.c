#include "analysis/html/html_data.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/figures/cut_stacks.h"
#include "analysis/html/html_pack.h"
#include "analysis/html/html_tree.h"
#include "analysis/names/program_frames.h"

#define MEASURES 5

/* A candidate for a separate entry, and its importance. */
struct candidate {
    double share;
    double shares[MEASURES]; /* of bytes, use at the peak, live bytes, blocks, temporary ones */
    uint32_t number;         /* of a thread, a site, or a call stack */
    uint32_t row;            /* in summary.sites, for call stacks */
};

struct candidates {
    struct candidate *at;
    size_t len;
    size_t cap;
};

/* What fits the page. */
struct limits {
    size_t cells, histogram, map, lives; /* see page_series_options */
    size_t blocks;                       /* of the list of html_blocks.h */
    size_t keys, sites, stacks, nodes;
    size_t folded_nodes; /* with those of folded call stacks */
    size_t text;         /* bytes of names, before compression */
};

struct builder {
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
    struct map node_numbers; /* node of the trace (node_key) → of the page */
    struct cut_stacks cut;
    struct map frame_numbers; /* frame of the trace, and which of its functions → of the page */
    struct page_tree tree;
    VEC(uint32_t) path; /* nodes of a call stack that the page does not have, innermost first */
    struct candidates candidates;
    bool all_threads;     /* see page_series_options */
    struct timeline use;  /* of a trace of figures only */
    struct limits limits; /* fewer sites and stacks when there is too much history for all */
};

#define UNASSIGNED UINT32_MAX

/*
 * The divisors are bytes of the page for each, measured on pages of compilers, interpreters and
 * bench/firehose.c, so that the parts together fill it.
 */
#define FOLDED_PART 8 /* as many of the nodes, once more, may be added for folded call stacks */

static struct limits limits_of(size_t size)
{
    struct limits max = {.cells = size / 6,
                         .histogram = size / 25,
                         .map = size / 20,
                         .lives = size / 100,
                         .blocks = size / 200,
                         .keys = size / 30,
                         .sites = size / 300,
                         .stacks = size / 40,
                         .nodes = size / 7,
                         .text = size / 2};
    max.keys = max.keys < PAGE_KEYS_MAX ? max.keys : PAGE_KEYS_MAX;
    max.folded_nodes = max.nodes + max.nodes / FOLDED_PART;
    return max;
}

/* ---- what matters */

static double share(uint64_t part, uint64_t whole)
{
    return whole ? (double)part / (double)whole : 0;
}

/* The page is about bytes first: many small blocks matter less than few large ones. */
static const double entry_weights[MEASURES] = {1, 1, 1, 0.25, 0.25};
static const double place_weights[MEASURES] = {1, 0.08, 0.04, 0.008, 0.008};

static void find_shares(struct candidate *to, const struct counter *c, const struct pool_figures *f)
{
    const double shares[MEASURES] = {
        share(c->bytes, f->total_bytes), share(c->at_peak_bytes, f->peak_bytes),
        share(c->live_bytes, f->live_bytes), share(c->count, f->allocations),
        share(c->temporary, f->temporary)};
    for (size_t i = 0; i < MEASURES; i++) {
        to->shares[i] = shares[i];
        if (entry_weights[i] * shares[i] > to->share)
            to->share = entry_weights[i] * shares[i];
    }
}

static int compare_numbers(const void *a, const void *b)
{
    const struct candidate *x = a;
    const struct candidate *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

static int compare_shares(const void *a, const void *b)
{
    const struct candidate *x = a;
    const struct candidate *y = b;
    if (x->share != y->share)
        return x->share > y->share ? -1 : 1;
    return compare_numbers(a, b);
}

/* Entries of two pools. */
static void merge(struct candidate *to, const struct candidate *from)
{
    if (from->share > to->share) {
        to->share = from->share;
        to->row = from->row;
    }
    for (size_t i = 0; i < MEASURES; i++) {
        if (from->shares[i] > to->shares[i])
            to->shares[i] = from->shares[i];
    }
}

/* One candidate for each number, with its largest share; the largest first. */
static void rank(struct candidates *c)
{
    size_t kept = 0;
    if (c->len)
        qsort(c->at, c->len, sizeof *c->at, compare_numbers);
    for (size_t i = 0; i < c->len; i++) {
        if (kept && c->at[kept - 1].number == c->at[i].number) {
            merge(&c->at[kept - 1], &c->at[i]);
        } else {
            c->at[kept++] = c->at[i];
        }
    }
    c->len = kept;
    if (kept)
        qsort(c->at, kept, sizeof *c->at, compare_shares);
}

static int compare_measures(const void *a, const void *b, void *measure)
{
    const struct candidate *x = a;
    const struct candidate *y = b;
    const size_t m = *(const size_t *)measure;
    if (x->shares[m] != y->shares[m])
        return x->shares[m] > y->shares[m] ? -1 : 1;
    return compare_numbers(a, b);
}

/*
 * Orders ranked candidates so that however many are chosen, what the others have of each measure is
 * as small as its weight asks: a candidate is as important as what would be left out with it if the
 * heavier ones were chosen. Unlike the largest share this does not prefer a single block at a low
 * peak to gigabytes in many call stacks.
 */
static void rank_by_rest(struct candidates *c)
{
    for (size_t i = 0; i < c->len; i++)
        c->at[i].share = 0;
    for (size_t m = 0; c->len && m < MEASURES; m++) {
        double whole = 0;
        for (size_t i = 0; i < c->len; i++)
            whole += c->at[i].shares[m];
        qsort_r(c->at, c->len, sizeof *c->at, compare_measures, &m);
        double rest = whole;
        for (size_t i = 0; i < c->len && c->at[i].shares[m] > 0; i++) {
            double importance = place_weights[m] * rest / whole;
            if (importance > c->at[i].share)
                c->at[i].share = importance;
            rest -= c->at[i].shares[m];
        }
    }
    if (c->len)
        qsort(c->at, c->len, sizeof *c->at, compare_shares);
}

static int add_candidate(struct builder *b, const struct counter *c, uint32_t pool, uint32_t number,
                         size_t row, struct err *e)
{
    struct candidate at = {.number = number, .row = (uint32_t)row};
    find_shares(&at, c, &b->s->pools.at[pool].figures);
    return vec_push(&b->candidates, at) ? 0 : err_no_memory(e, "what the page shows");
}

/* ---- names */

static int count_text(struct builder *b, struct view text, struct err *e)
{
    return page_tree_text(&b->tree, b->d, &text, e);
}

/* ---- pools */

static int compare_pools(const void *a, const void *b, void *ctx)
{
    const struct summary *s = ctx;
    const struct pool_figures *x = &s->pools.at[*(const uint32_t *)a].figures;
    const struct pool_figures *y = &s->pools.at[*(const uint32_t *)b].figures;
    if (x->peak_bytes != y->peak_bytes)
        return x->peak_bytes > y->peak_bytes ? -1 : 1;
    return *(const uint32_t *)a > *(const uint32_t *)b ? 1 : -1;
}

static int list_pools(struct builder *b, uint32_t *order, uint32_t *shown, struct err *e)
{
    const struct summary *s = b->s;
    uint32_t n = (uint32_t)s->pools.len;
    uint32_t kept = n > PAGE_POOLS_MAX ? PAGE_POOLS_MAX : n;
    for (uint32_t i = 0; i < n; i++)
        order[i] = i;
    /* All in the summary's order when there is room, else those with the highest peaks. */
    if (n > kept)
        qsort_r(order, n, sizeof *order, compare_pools, (void *)s);
    for (uint32_t i = 0; i < n; i++)
        shown[order[i]] = i < kept ? i : kept;
    for (uint32_t i = 0; i < kept; i++) {
        struct page_pool p = {s->pools.at[order[i]].name, 1, order[i]};
        if (!vec_push(&b->d->pools, p) || count_text(b, p.name, e) != 0)
            return err_no_memory(e, "pools");
    }
    struct page_pool rest = {{"", 0}, n - kept, -1};
    if (rest.count && !vec_push(&b->d->pools, rest))
        return err_no_memory(e, "pools");
    return 0;
}

/* The pool of the page for each pool of the trace, by the summary's list of keys. */
static int choose_pools(struct builder *b, struct err *e)
{
    const struct summary *s = b->s;
    const struct memory *m = &b->trace->memory;
    struct map by_key = {0};
    uint32_t *order = calloc(s->pools.len + 1, 2 * sizeof *order);
    int status = order ? list_pools(b, order, order + s->pools.len, e)
                       : err_no_memory(e, "what the page shows");
    for (size_t i = 0; status == 0 && i < s->pools.len; i++) {
        const struct summary_pool *p = &s->pools.at[i];
        for (size_t k = p->first_key; k < p->first_key + p->key_count && status == 0; k++) {
            uint64_t *to = map_add(&by_key, s->pool_keys.at[k], NULL);
            if (to)
                *to = order[s->pools.len + i];
            else
                status = err_no_memory(e, "pools");
        }
    }
    for (size_t i = 0; status == 0 && i < m->pools.len; i++) {
        const uint64_t *to = map_find(&by_key, m->pools.at[i]->key);
        b->pools[i] = to ? (uint32_t)*to : (uint32_t)b->d->pools.len;
    }
    free(order);
    map_release(&by_key);
    return status;
}

/* ---- threads */

static int choose_threads(struct builder *b, struct err *e)
{
    const struct row_list *rows = &b->s->groups;
    const struct trace_threads *threads = &b->trace->threads;
    struct page_data *d = b->d;
    b->candidates.len = 0;
    /* Figures are by thread or by call stack: the page has those of call stacks. */
    for (size_t i = 0; i < rows->len && !b->trace->memory.only.is; i++) {
        if (add_candidate(b, &rows->at[i].figures, rows->at[i].pool, rows->at[i].key, i, e) != 0)
            return -1;
    }
    rank(&b->candidates);
    size_t kept = b->candidates.len < PAGE_THREADS_MAX ? b->candidates.len : PAGE_THREADS_MAX;
    for (size_t i = 0; i < kept; i++) {
        uint32_t number = b->candidates.at[i].number;
        struct page_thread t = {.name = {"", 0}};
        if (number < threads->list.len) {
            const struct trace_thread *in = &threads->list.at[number];
            t.id = in->id;
            t.name = strings_get(&b->trace->strings, in->name);
            b->threads[number] = (uint32_t)i;
        }
        if (!vec_push(&d->threads, t) || count_text(b, t.name, e) != 0)
            return err_no_memory(e, "threads");
    }
    d->other_threads = b->candidates.len - kept;
    if (!vec_push(&d->threads, (struct page_thread){.name = {"", 0}, .rest = true}))
        return err_no_memory(e, "threads");
    for (size_t i = 0; i < threads->list.len; i++) {
        if (b->threads[i] == UNASSIGNED)
            b->threads[i] = (uint32_t)kept;
    }
    return 0;
}

/* ---- sites */

/* The type with most bytes. */
static void find_type(const struct summary *s, const struct summary_row *row,
                      struct page_site *site)
{
    site->type = (struct view){"", 0};
    for (size_t i = 0; i < row->type_count && site->type.len == 0; i++)
        site->type = s->row_types.at[row->first_type + i].name;
    site->more_types = site->type.len && row->type_count > 1;
}

/* A site is one entry for all pools: its rows in less important pools may have other types. */
static void compare_types(struct builder *b, const struct row_list *rows)
{
    for (size_t i = 0; i < rows->len; i++) {
        const uint64_t *number = map_find(&b->site_numbers, rows->at[i].key);
        struct page_site *site = number ? &b->d->sites.at[*number] : NULL;
        struct page_site here = {.rest = false};
        if (!site || rows->at[i].type_count == 0)
            continue;
        find_type(b->s, &rows->at[i], &here);
        if (site->type.len == 0)
            site->type = here.type;
        site->more_types |= here.more_types || !view_equal(here.type, site->type);
    }
}

static int choose_sites(struct builder *b, struct err *e)
{
    const struct row_list *rows = &b->s->sites;
    struct page_data *d = b->d;
    struct page_site rest = {.frame = {.function = {"", 0}, .file = {"", 0}, .image = {"", 0}},
                             .rest = true,
                             .type = {"", 0}};
    b->candidates.len = 0;
    for (size_t i = 0; i < rows->len; i++) {
        if (add_candidate(b, &rows->at[i].figures, rows->at[i].pool, rows->at[i].key, i, e) != 0)
            return -1;
    }
    rank(&b->candidates);
    rank_by_rest(&b->candidates);
    if (!vec_push(&d->sites, rest))
        return err_no_memory(e, "allocation sites");
    for (size_t i = 0; i < b->candidates.len; i++) {
        const struct summary_row *row = &rows->at[b->candidates.at[i].row];
        if (d->sites.len > b->limits.sites ||
            d->text + page_tree_cost(&b->tree, &row->frame) > b->limits.text / 2) {
            d->other_sites++;
            continue;
        }
        uint64_t *number = map_add(&b->site_numbers, row->key, NULL);
        struct page_site site = {
            .frame = row->frame, .no_callstack = row->no_callstack, .callstack = row->callstack};
        find_type(b->s, row, &site);
        if (!number || page_tree_texts(&b->tree, d, &site.frame, e) != 0 ||
            page_tree_text(&b->tree, d, &site.type, e) != 0 || !vec_push(&d->sites, site))
            return err_no_memory(e, "allocation sites");
        *number = d->sites.len - 1;
    }
    compare_types(b, rows);
    return 0;
}

/* ---- call stacks */

/*
 * Cut call stacks hang under one extra node, apart from whole ones with the same frames. Where the
 * trace has a frame for that, no node is added.
 */
static bool hangs_apart(const struct builder *b, uint32_t callstack)
{
    return b->cut.is_bound && cut_stacks_has(&b->cut, callstack);
}

static uint64_t node_key(uint32_t node, bool apart)
{
    return node | (uint64_t)apart << 32;
}

static int frame_number(struct builder *b, uint32_t frame, uint32_t inlined, uint32_t *number,
                        struct err *e)
{
    bool fresh;
    uint64_t *at = map_add(&b->frame_numbers, (uint64_t)frame << 24 | inlined, &fresh);
    if (!at)
        return err_no_memory(e, "frames");
    if (fresh &&
        page_tree_frame(&b->tree, b->d, frame_describe(b->trace, frame, inlined), number, e) != 0)
        return -1;
    if (fresh)
        *at = *number;
    *number = (uint32_t)*at;
    return 0;
}

/* The nodes of a frame and its inlined functions, outermost first; *number is the innermost. */
static int add_nodes(struct builder *b, uint32_t frame, uint32_t *number, struct err *e)
{
    for (uint32_t i = frame_depth(b->trace, frame); i-- > 0;) {
        uint32_t at;
        if (frame_number(b, frame, i, &at, e) != 0 ||
            page_tree_child(&b->tree, b->d, at, number, e) != 0)
            return -1;
    }
    return 0;
}

/* The child of a node that stands for functions which the trace or the page does not have. */
static int add_mark(struct builder *b, struct view name, uint32_t *node, struct err *e)
{
    struct frame_view f = {.function = name, .file = {"", 0}, .image = {"", 0}};
    uint32_t frame;
    if (page_tree_frame(&b->tree, b->d, f, &frame, e) != 0)
        return -1;
    return page_tree_child(&b->tree, b->d, frame, node, e);
}

/* The node that cut call stacks hang under. */
static int cut_node(struct builder *b, uint32_t *number, struct err *e)
{
    frame_name_cut(b->d->cut_name, cut_stacks_depth(&b->cut));
    return add_mark(b, view_of(b->d->cut_name), number, e);
}

/*
 * Follows a call stack from its outermost frame as far as the page has it: *number is that node, 0
 * the root. What is missing is the path.
 */
static int follow(struct builder *b, uint32_t callstack, uint32_t *number, struct err *e)
{
    const struct callstacks *c = &b->trace->callstacks;
    const struct callstack *stack = callstacks_get(c, callstack);
    const uint64_t *known = NULL;
    bool apart = hangs_apart(b, callstack);
    *number = 0;
    b->path.len = 0;
    for (uint32_t node = stack ? stack->node : 0;
         node && !(known = map_find(&b->node_numbers, node_key(node, apart)));
         node = c->nodes.at[node].parent) {
        if (!vec_push(&b->path, node))
            return err_no_memory(e, "frames");
    }
    if (known)
        *number = (uint32_t)*known;
    else if (apart)
        return cut_node(b, number, e);
    return 0;
}

/* Whether names and nodes of the path still fit. */
static bool path_fits(const struct builder *b)
{
    const struct callstacks *c = &b->trace->callstacks;
    uint64_t text = b->d->text;
    size_t nodes = b->d->nodes.len;
    for (size_t i = b->path.len; i-- > 0;) {
        uint32_t frame = c->nodes.at[b->path.at[i]].frame;
        uint32_t depth = frame_depth(b->trace, frame);
        for (uint32_t k = 0; k < depth && text <= b->limits.text; k++) {
            struct frame_view f;
            if (map_find(&b->frame_numbers, (uint64_t)frame << 24 | k))
                continue;
            f = frame_describe(b->trace, frame, k);
            text += page_tree_cost(&b->tree, &f);
        }
        nodes += depth;
    }
    return nodes <= b->limits.nodes && text <= b->limits.text;
}

/* Adds the path below a node. */
static int add_path(struct builder *b, uint32_t callstack, uint32_t *number, struct err *e)
{
    const struct callstacks *c = &b->trace->callstacks;
    bool apart = hangs_apart(b, callstack);
    while (b->path.len) {
        uint32_t node = b->path.at[--b->path.len];
        if (add_nodes(b, c->nodes.at[node].frame, number, e) != 0)
            return -1;
        uint64_t *at = map_add(&b->node_numbers, node_key(node, apart), NULL);
        if (!at)
            return err_no_memory(e, "frames");
        *at = *number;
    }
    return 0;
}

/* The node of the page where the program begins in a call stack; 0: the page does not have it. */
static uint32_t begin_node(const struct builder *b, uint32_t callstack, struct stack_place begin)
{
    const uint64_t *node =
        map_find(&b->node_numbers, node_key(begin.node, hangs_apart(b, callstack)));
    uint32_t at = node ? (uint32_t)*node : 0;
    for (uint32_t i = 0; at && i < begin.inlined; i++)
        at = b->d->nodes.at[at].parent;
    return at;
}

/* Counts a call stack with the others of its site. */
static int fold_into_site(struct builder *b, uint32_t callstack, uint32_t site, struct err *e)
{
    bool fresh;
    uint64_t *at = map_add(&b->site_rests, site, &fresh);
    if (at && fresh) {
        *at = b->d->stacks.len;
        if (!vec_push(&b->d->stacks, (struct page_stack){.site = site, .is_folded = true}))
            at = NULL;
    }
    if (!at)
        return err_no_memory(e, "call stacks");
    b->stacks[callstack] = (uint32_t)*at;
    return 0;
}

/*
 * Combines call stacks of a site that have their outer frames in common, up to `node`, the
 * innermost one that the page has: what is between is left out.
 */
static int fold_stack(struct builder *b, uint32_t callstack, uint32_t site, uint32_t node,
                      struct err *e)
{
    struct page_data *d = b->d;
    struct stack_place begin = program_frames_begin(&b->program, callstack);
    struct page_stack stack = {.site = site, .is_folded = true};
    d->other_stacks++;
    if (begin.node == 0 || node == 0 || d->nodes.len >= b->limits.folded_nodes)
        return fold_into_site(b, callstack, site, e);
    stack.node = node;
    stack.begin = begin_node(b, callstack, begin);
    if (!stack.begin) {
        uint32_t frame;
        if (add_mark(b, view_of(PAGE_LEFT_OUT), &stack.node, e) != 0 ||
            frame_number(b, b->trace->callstacks.nodes.at[begin.node].frame, begin.inlined, &frame,
                         e) != 0 ||
            page_tree_child(&b->tree, d, frame, &stack.node, e) != 0)
            return -1;
        stack.begin = stack.node;
    }
    return page_tree_stack(&b->tree, d, stack, &b->stacks[callstack], e);
}

static int place_stack(struct builder *b, const struct candidate *c, struct err *e)
{
    const struct summary_row *row = &b->s->sites.at[c->row];
    const uint64_t *site = map_find(&b->site_numbers, row->key);
    if (c->number >= b->stack_limit || !site) {
        b->d->other_stacks++;
        return 0;
    }
    struct page_stack stack = {.site = (uint32_t)*site};
    if (follow(b, c->number, &stack.node, e) != 0)
        return -1;
    if (b->d->stacks.len > b->limits.stacks || !path_fits(b))
        return fold_stack(b, c->number, stack.site, stack.node, e);
    if (add_path(b, c->number, &stack.node, e) != 0)
        return -1;
    stack.begin = begin_node(b, c->number, program_frames_begin(&b->program, c->number));
    if (!stack.begin)
        stack.begin = stack.node;
    return page_tree_stack(&b->tree, b->d, stack, &b->stacks[c->number], e);
}

static int choose_stacks(struct builder *b, struct err *e)
{
    const struct row_list *rows = &b->s->sites;
    b->candidates.len = 0;
    for (size_t i = 0; i < rows->len; i++) {
        for (size_t k = 0; k < rows->at[i].stack_count; k++) {
            const struct summary_stack *stack = &b->s->stacks.at[rows->at[i].first_stack + k];
            cut_stacks_note(&b->cut, stack->callstack);
            if (add_candidate(b, &stack->figures, rows->at[i].pool, stack->callstack, i, e) != 0)
                return -1;
        }
    }
    rank(&b->candidates);
    rank_by_rest(&b->candidates);
    if (!vec_push(&b->d->stacks, (struct page_stack){.is_folded = true}) ||
        !vec_push(&b->d->nodes, (struct page_node){0}))
        return err_no_memory(e, "call stacks");
    for (size_t i = 0; i < b->candidates.len; i++) {
        if (place_stack(b, &b->candidates.at[i], e) != 0)
            return -1;
    }
    return 0;
}

/* ---- the span of time */

static const struct selection *narrowed(const struct builder *b)
{
    return selection_is_narrow(&b->s->selection.options) ? &b->s->selection : NULL;
}

static void widen(struct page_data *d, int64_t time)
{
    if (time < d->from)
        d->from = time;
    if (time > d->to)
        d->to = time;
}

/* The times of a block's allocation and free, as far as they are selected; and the block itself. */
static int take_block(struct builder *b, uint32_t pool, const struct memory_alloc *a, int64_t freed,
                      struct err *e)
{
    const struct selection *only = narrowed(b);
    const struct selection_block block = {.pool = pool,
                                          .thread = memory_alloc_thread(a),
                                          .callstack = a->callstack,
                                          .size = memory_alloc_size(a),
                                          .time = a->time,
                                          .freed = freed};
    if (only && !selection_wants(only, &block))
        return 0;
    bool lives = is_live_before(freed, only ? only->end : INT64_MAX);
    widen(b->d, a->time);
    if (!lives)
        widen(b->d, freed);
    const struct page_block shown = {.pool = b->pools[pool],
                                     .callstack = a->callstack,
                                     .ptr = a->ptr,
                                     .size = block.size,
                                     .time = a->time,
                                     .freed = lives ? INT64_MAX : freed};
    return page_blocks_offer(&b->d->blocks, &shown, e);
}

static int read_blocks(struct builder *b, uint32_t number, struct err *e)
{
    struct pool *pool = b->trace->memory.pools.at[number];
    struct column_reader allocs;
    struct column_reader frees;
    const struct memory_alloc *a;
    const struct memory_free *f = NULL;
    size_t n = 0;
    size_t same = 0;
    int status = 0;
    column_reader_init(&allocs, &pool->allocs);
    column_reader_init(&frees, &pool->frees);
    while (status == 0 && (a = column_reader_next(&allocs, &n, e)) &&
           (f = column_reader_next(&frees, &same, e))) {
        for (size_t i = 0; i < n && status == 0; i++)
            status = take_block(b, number, &a[i], memory_free_time(&a[i], &f[i]), e);
    }
    if (allocs.next < pool->allocs.len)
        status = -1;
    column_reader_release(&allocs);
    column_reader_release(&frees);
    return status;
}

/* A time of a file's figures: the span between two such fits. */
static int64_t bounded_time(int64_t time)
{
    const int64_t most = INT64_MAX / 4;
    return time > most ? most : time < -most ? -most : time;
}

/* Of a trace of figures only, and its use over time. */
static int find_use(struct builder *b, struct err *e)
{
    const struct summary *s = b->s;
    struct page_data *d = b->d;
    if (selection_figures(&b->selection, e) != 0)
        return -1;
    if (s->pools.len > PAGE_POOLS_MAX)
        return memory_refuse("the peak of several pools together is not known, and a page shows up "
                             "to 24: choose one",
                             e);
    for (size_t i = 0; i < s->stacks.len; i++) {
        widen(d, bounded_time(s->stacks.at[i].figures.first_time));
        widen(d, bounded_time(s->stacks.at[i].figures.last_time));
    }
    if (d->from > d->to)
        d->from = d->to = 0;
    const struct timeline_options window = {
        .begin = d->from, .end = d->to + 1, .buckets = PAGE_SLOTS / 2};
    if (timeline_build(&b->use, &b->selection, &window, e) != 0)
        return -1;
    d->figure_step = timeline_time(&b->use, 1) - b->use.begin;
    return 0;
}

static int find_span(struct builder *b, struct err *e)
{
    struct page_data *d = b->d;
    d->from = INT64_MAX;
    d->to = INT64_MIN;
    d->blocks.max = b->limits.blocks;
    if (b->trace->memory.only.is)
        return find_use(b, e);
    for (uint32_t i = 0; i < b->trace->memory.pools.len; i++) {
        if (b->pools[i] < d->pools.len && read_blocks(b, i, e) != 0)
            return -1;
    }
    if (d->from > d->to)
        d->from = d->to = 0;
    return 0;
}

/* ---- all of it */

/* Chooses one step length for all data over time. */
static int align_steps(struct page_series *s, struct err *e)
{
    struct page_cells *all[] = {&s->cells, &s->histogram, &s->blocks};
    unsigned shift = 0;
    for (size_t i = 0; i < 3; i++)
        shift = all[i]->shift > shift ? all[i]->shift : shift;
    for (size_t i = 0; i < 3; i++) {
        while (all[i]->shift < shift) {
            if (page_cells_halve(all[i], e) != 0)
                return -1;
        }
    }
    return 0;
}

/* The blocks were collected before sites were chosen. */
static void find_block_sites(struct builder *b)
{
    struct page_data *d = b->d;
    for (size_t i = 0; i < d->blocks.list.len; i++) {
        uint32_t callstack = d->blocks.list.at[i].callstack;
        uint32_t stack = callstack < b->stack_limit ? b->stacks[callstack] : 0;
        d->blocks.list.at[i].site = d->stacks.at[stack].site;
    }
    page_blocks_finish(&d->blocks);
}

/* Sites are sorted by importance, after the first, which is "other". */
static void choose_owners(struct builder *b)
{
    for (size_t i = 0; i < b->stack_limit; i++) {
        uint32_t site = b->d->stacks.at[b->stacks[i]].site;
        b->owners[i] = (uint8_t)(site && site <= PAGE_MAP_OWNERS ? site - 1 : PAGE_MAP_OWNERS);
    }
}

static int list_sites(struct builder *b, struct err *e)
{
    b->sites.len = 0;
    for (size_t i = 0; i < b->d->stacks.len; i++) {
        if (!vec_push(&b->sites, b->d->stacks.at[i].site))
            return err_no_memory(e, "call stacks");
    }
    return 0;
}

/* `first`: leaks share the pass. */
static int build_series(struct builder *b, bool first, struct err *e)
{
    struct page_data *d = b->d;
    choose_owners(b);
    if (list_sites(b, e) != 0)
        return -1;
    const struct page_series_options o = {
        .pools = b->pools,
        .pool_count = (uint32_t)d->pools.len,
        .threads = b->threads,
        .thread_limit = b->trace->threads.list.len,
        .thread_count = (uint32_t)d->threads.len,
        .thread_other = (uint32_t)d->threads.len - 1,
        .stacks = b->stacks,
        .stack_limit = b->stack_limit,
        .stack_other = 0,
        .sites = b->sites.at,
        .owners = b->owners,
        .from = d->from,
        .to = d->to,
        .selection = &b->selection,
        .all_threads = b->all_threads,
        .cells_max = b->limits.cells,
        .histogram_max = b->limits.histogram,
        .map_max = b->limits.map,
        .lives_max = b->limits.lives,
    };
    if (!b->trace->memory.only.is)
        return page_series_build(&d->series, &o, first ? &b->leaks.to : NULL, e);
    if (first && b->leaks.figures(b->leaks.to.ctx, e) != 0)
        return -1;
    return page_series_figures(&d->series, &o, b->s, &b->use, e);
}

/* Discards all sites and call stacks, for another choice. */
static void forget_places(struct builder *b)
{
    struct page_data *d = b->d;
    d->sites.len = d->stacks.len = d->nodes.len = d->frames.len = 0;
    d->other_sites = d->other_stacks = 0;
    d->text = 0;
    map_release(&b->site_numbers);
    map_release(&b->site_rests);
    map_release(&b->node_numbers);
    map_release(&b->frame_numbers);
    page_tree_release(&b->tree);
    memset(b->stacks, 0, b->stack_limit * sizeof *b->stacks);
    page_series_release(&d->series);
}

/* How many more bytes cells have with steps of half the length, as measured. */
#define CELLS_BY_STEPS 1.6

/* Bytes of the page without its data, and of a pool's curve; the part of names that stays. */
#define FRAME_BYTES 172000u
#define CURVE_BYTES 12000u
#define TEXT_PART 0.53

/* Adds the bytes of cells with PAGE_STEPS_MIN steps, or fewer if there are. */
static int add_cells_size(const struct page_cells *all, size_t *size, struct err *e)
{
    struct page_cells c = {.options = all->options, .shift = all->shift, .step = all->step};
    int status = 0;
    for (size_t i = 0; i < all->list.len && status == 0; i++)
        status = vec_push(&c.list, all->list.at[i]) ? 0 : err_no_memory(e, "figures of the page");
    while (status == 0 && page_cells_steps(&c) > PAGE_STEPS_MIN)
        status = page_cells_halve(&c, e);
    struct buf raw = {0};
    pack_cells(&c, &raw);
    if (status == 0)
        status = pack_size(&raw, size, e);
    buf_release(&raw);
    page_cells_release(&c);
    return status;
}

/* The bytes of the tree, of the cells of keys, and of all else, with steps as above. */
static int find_room(const struct page_data *d, size_t *tree, size_t *cells, size_t *others,
                     struct err *e)
{
    const struct page_series *s = &d->series;
    struct buf raw = {0};
    size_t blocks;
    *tree = *cells = 0;
    *others = FRAME_BYTES + CURVE_BYTES * d->pools.len + (size_t)(TEXT_PART * (double)d->text);
    pack_lives(&s->lives, &raw);
    pack_blocks(d, &raw, &blocks);
    int status = pack_size(&raw, others, e);
    buf_clear(&raw);
    pack_tree(d, &raw);
    if (status == 0)
        status = pack_size(&raw, tree, e);
    buf_release(&raw);
    if (status != 0 || add_cells_size(&s->cells, cells, e) != 0 ||
        add_cells_size(&s->histogram, others, e) != 0)
        return -1;
    return add_cells_size(&s->blocks, others, e);
}

/*
 * How much of what was chosen may stay, so that its cells fit the page with steps that are short
 * enough: 1 or more if all of it may.
 */
static int find_scale(const struct builder *b, double *scale, struct err *e)
{
    const struct page_data *d = b->d;
    size_t cells, tree, others;
    if (find_room(d, &tree, &cells, &others, e) != 0)
        return -1;
    double need = (double)cells + 1;
    for (uint32_t steps = page_cells_steps(&d->series.cells);
         steps < PAGE_STEPS_MIN && !d->figure_step; steps *= 2)
        need *= CELLS_BY_STEPS;
    double room = (double)d->size - (double)others - (double)tree;
    /* What is chosen less makes room in the tree, too. */
    *scale = (room + (double)tree) / (need + (double)tree);
    if (room < 0 || *scale < 0.1)
        *scale = 0.1;
    double keys = (double)b->limits.keys / (double)(d->series.keys.len + 1);
    *scale = keys < *scale ? keys : *scale;
    return 0;
}

/*
 * Whether steps are too long. If the histograms cause that, these combine threads from now on; if
 * there are too many keys, the number of entries is reduced by the scale to fit.
 */
static bool must_shrink(struct builder *b, double scale)
{
    const struct page_series *s = &b->d->series;
    struct limits *max = &b->limits;
    if (s->histogram.shift > s->cells.shift && page_cells_steps(&s->histogram) < PAGE_STEPS_MIN &&
        !b->all_threads) {
        b->all_threads = true;
        return true;
    }
    if (scale >= 1.02 || b->d->stacks.len <= PAGE_PLACES_MIN)
        return false;
    scale *= 0.98;
    max->stacks = (size_t)((double)b->d->stacks.len * scale);
    size_t nodes = (size_t)((double)b->d->nodes.len * scale);
    if (max->stacks < PAGE_PLACES_MIN)
        max->stacks = PAGE_PLACES_MIN;
    /* Folded call stacks have an entry for each site at least. */
    if (max->sites > max->stacks)
        max->sites = max->stacks;
    max->folded_nodes = nodes;
    max->nodes = nodes - nodes / (FOLDED_PART + 1);
    return true;
}

#define ATTEMPTS 5

static int build(struct builder *b, struct err *e)
{
    b->limits = limits_of(b->d->size);
    if (choose_pools(b, e) != 0 || choose_threads(b, e) != 0 || find_span(b, e) != 0)
        return -1;
    for (int attempt = 1;; attempt++) {
        if (choose_sites(b, e) != 0 || choose_stacks(b, e) != 0 ||
            build_series(b, attempt == 1, e) != 0)
            return -1;
        find_block_sites(b);
        double scale = 1;
        if (attempt < ATTEMPTS && find_scale(b, &scale, e) != 0)
            return -1;
        if (attempt == ATTEMPTS || !must_shrink(b, scale))
            break;
        forget_places(b);
    }
    struct page_data *d = b->d;
    int64_t end = d->from + (int64_t)(d->series.slot_ns * PAGE_SLOTS);
    return kernel_curve_build(&d->kernel, b->trace, d->from, end, PAGE_SLOTS, e) == 0
               ? align_steps(&d->series, e)
               : -1;
}

/* What was resident, and why. */
static int build_resident(struct builder *b, const struct skiplist *skip, struct err *e)
{
    struct page_data *d = b->d;
    const struct page_look *look = resident_highest(b->trace);
    if (!look)
        return 0;
    if (resident_build(&d->resident, &b->selection, skip, look, e) != 0)
        return -1;
    d->looked = true;
    return resident_findings_make(&d->findings, &d->resident, b->trace,
                                  selection_is_narrow(&b->selection.options), e);
}

int page_data_build(struct page_data *d, struct trace *t, const struct summary *s,
                    const struct skiplist *skip, size_t size, struct err *e)
{
    *d = (struct page_data){.summary = s, .size = size};
    struct builder b = {.d = d, .trace = t, .s = s, .selection = s->selection};
    size_t threads = t->threads.list.len;
    b.stack_limit = t->callstacks.list.len + 1;
    b.pools = calloc(t->memory.pools.len + 1, sizeof *b.pools);
    b.threads = malloc((threads + 1) * sizeof *b.threads);
    b.stacks = calloc(b.stack_limit, sizeof *b.stacks);
    b.owners = malloc(b.stack_limit);
    int status = -1;
    if (b.pools && b.threads && b.stacks && b.owners &&
        program_frames_init(&b.program, t, skip, e) == 0 && cut_stacks_init(&b.cut, t, e) == 0) {
        memset(b.threads, 0xff, (threads + 1) * sizeof *b.threads);
        status = leaks_begin(&b.leaks, &d->leaks, &b.selection, skip, NULL, e);
        if (status == 0)
            status = b.leaks.end(b.leaks.to.ctx, build(&b, e) == 0, e);
        if (status == 0)
            status = build_resident(&b, skip, e);
    } else if (!b.pools || !b.threads || !b.stacks || !b.owners) {
        err_no_memory(e, "what the page shows");
    }
    d->series.options.pools = d->series.options.threads = d->series.options.stacks = NULL;
    d->series.options.owners = NULL;
    d->series.options.sites = NULL;
    free(b.pools);
    free(b.threads);
    free(b.stacks);
    free(b.owners);
    program_frames_release(&b.program);
    cut_stacks_release(&b.cut);
    map_release(&b.site_numbers);
    map_release(&b.site_rests);
    map_release(&b.node_numbers);
    map_release(&b.frame_numbers);
    page_tree_release(&b.tree);
    timeline_release(&b.use);
    vec_release(&b.sites);
    vec_release(&b.path);
    vec_release(&b.candidates);
    if (status != 0)
        page_data_release(d);
    return status;
}

void page_data_release(struct page_data *d)
{
    vec_release(&d->pools);
    vec_release(&d->threads);
    vec_release(&d->sites);
    vec_release(&d->stacks);
    vec_release(&d->nodes);
    vec_release(&d->frames);
    page_series_release(&d->series);
    page_blocks_release(&d->blocks);
    kernel_curve_release(&d->kernel);
    leaks_release(&d->leaks);
    resident_release(&d->resident);
    resident_findings_release(&d->findings);
    *d = (struct page_data){0};
}
