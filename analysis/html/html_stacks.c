/* Which call stacks have separate entries on the page, and which are folded into others. */

#include "analysis/html/html_builder.h"

#include <stdlib.h>
#include <string.h>

/*
 * Cut call stacks hang under one extra node, apart from whole ones with the same frames. Where the
 * trace has a frame for that, no node is added.
 */
static bool hangs_apart(const struct html_builder *b, uint32_t callstack)
{
    return b->cut.is_bound && cut_stacks_has(&b->cut, callstack);
}

/* Nodes of call stacks that hang apart come after the others. */
static uint32_t *node_place(const struct html_builder *b, uint32_t node, bool apart)
{
    return &b->node_numbers[node + (apart ? b->trace->callstacks.nodes.len : 0)];
}

int html_stacks_begin(struct html_builder *b, struct err *e)
{
    b->node_numbers = calloc(2 * b->trace->callstacks.nodes.len + 1, sizeof *b->node_numbers);
    return b->node_numbers ? 0 : err_no_memory(e, "what the page shows");
}

static int frame_number(struct html_builder *b, uint32_t frame, uint32_t inlined, uint32_t *number,
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
static int add_nodes(struct html_builder *b, uint32_t frame, uint32_t *number, struct err *e)
{
    for (uint32_t i = frame_depth(b->trace, frame); i-- > 0;) {
        uint32_t at;
        if (frame_number(b, frame, i, &at, e) != 0 ||
            page_tree_child(&b->tree, b->d, at, number, e) != 0)
            return -1;
    }
    return 0;
}

/* The node that cut call stacks hang under. */
static int cut_node(struct html_builder *b, uint32_t *number, struct err *e)
{
    uint32_t frame;
    frame_name_cut(b->d->cut_name, cut_stacks_depth(&b->cut));
    struct frame_view f = {.function = view_of(b->d->cut_name), .file = {"", 0}, .image = {"", 0}};
    if (page_tree_frame(&b->tree, b->d, f, &frame, e) != 0)
        return -1;
    return page_tree_child(&b->tree, b->d, frame, number, e);
}

/*
 * Follows a call stack from its outermost frame as far as the page has it: *number is that node, 0
 * the root. What is missing is the path.
 */
static int follow(struct html_builder *b, uint32_t callstack, uint32_t *number, struct err *e)
{
    const struct callstacks *c = &b->trace->callstacks;
    const struct callstack *stack = callstacks_get(c, callstack);
    bool apart = hangs_apart(b, callstack);
    *number = 0;
    b->path.len = 0;
    for (uint32_t node = stack ? stack->node : 0; node && !(*number = *node_place(b, node, apart));
         node = c->nodes.at[node].parent) {
        if (!vec_push(&b->path, node))
            return err_no_memory(e, "frames");
    }
    return apart && !*number ? cut_node(b, number, e) : 0;
}

/* How many times as many call stacks and nodes as the limits there may be with this one. */
static size_t times_of_limits(const struct html_candidate *c)
{
    return c->share > HEAVY_SHARE ? HEAVY_TIMES : 1;
}

/* Whether names and nodes of the path still fit. */
static bool path_fits(const struct html_builder *b, const struct html_candidate *of)
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
    return nodes <= b->limits.nodes * times_of_limits(of) && text <= b->limits.text;
}

/* Adds the path below a node. */
static int add_path(struct html_builder *b, uint32_t callstack, uint32_t *number, struct err *e)
{
    const struct callstacks *c = &b->trace->callstacks;
    bool apart = hangs_apart(b, callstack);
    while (b->path.len) {
        uint32_t node = b->path.at[--b->path.len];
        if (add_nodes(b, c->nodes.at[node].frame, number, e) != 0)
            return -1;
        *node_place(b, node, apart) = *number;
    }
    return 0;
}

/* The node of the page where the program begins in a call stack; 0: the page does not have it. */
static uint32_t begin_node(const struct html_builder *b, uint32_t callstack,
                           struct stack_place begin)
{
    uint32_t at = *node_place(b, begin.node, hangs_apart(b, callstack));
    for (uint32_t i = 0; at && i < begin.inlined; i++)
        at = b->d->nodes.at[at].parent;
    return at;
}

/* Counts a call stack with the others of its site. */
static int fold_into_site(struct html_builder *b, uint32_t callstack, uint32_t site, struct err *e)
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
static int fold_stack(struct html_builder *b, uint32_t callstack, uint32_t site, uint32_t node,
                      struct err *e)
{
    struct page_data *d = b->d;
    struct stack_place begin = program_frames_begin(&b->program, callstack);
    struct page_stack stack = {.site = site, .is_folded = true};
    size_t nodes = d->nodes.len;
    d->other_stacks++;
    if (begin.node == 0 || node == 0 || b->folded_nodes >= b->limits.folded_nodes)
        return fold_into_site(b, callstack, site, e);
    stack.node = node;
    stack.begin = begin_node(b, callstack, begin);
    if (!stack.begin) {
        uint32_t frame;
        if (page_tree_child(&b->tree, d, d->left_out, &stack.node, e) != 0 ||
            frame_number(b, b->trace->callstacks.nodes.at[begin.node].frame, begin.inlined, &frame,
                         e) != 0 ||
            page_tree_child(&b->tree, d, frame, &stack.node, e) != 0)
            return -1;
        stack.begin = stack.node;
    }
    b->folded_nodes += d->nodes.len - nodes;
    return page_tree_stack(&b->tree, d, stack, &b->stacks[callstack], e);
}

static int place_stack(struct html_builder *b, const struct html_candidate *c, struct err *e)
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
    if (b->d->ranked >= b->limits.stacks * times_of_limits(c) || !path_fits(b, c))
        return fold_stack(b, c->number, stack.site, stack.node, e);
    if (add_path(b, c->number, &stack.node, e) != 0)
        return -1;
    stack.begin = begin_node(b, c->number, program_frames_begin(&b->program, c->number));
    if (!stack.begin)
        stack.begin = stack.node;
    stack.rank = b->d->ranked;
    if (page_tree_stack(&b->tree, b->d, stack, &b->stacks[c->number], e) != 0)
        return -1;
    struct page_stack *placed = &b->d->stacks.at[b->stacks[c->number]];
    b->d->ranked += !placed->is_folded && placed->count == 0;
    placed->count++;
    return 0;
}

int html_choose_stacks(struct html_builder *b, struct err *e)
{
    const struct row_list *rows = &b->s->sites;
    b->candidates.len = 0;
    for (size_t i = 0; i < rows->len; i++) {
        for (size_t k = 0; k < rows->at[i].stack_count; k++) {
            const struct summary_stack *stack = &b->s->stacks.at[rows->at[i].first_stack + k];
            cut_stacks_note(&b->cut, stack->callstack);
            if (html_add_candidate(b, &stack->figures, rows->at[i].pool, stack->callstack, i, e) !=
                0)
                return -1;
        }
    }
    html_rank(&b->candidates);
    html_rank_by_rest(b);
    struct frame_view gap = {.function = view_of(PAGE_LEFT_OUT), .file = {"", 0}, .image = {"", 0}};
    if (!vec_push(&b->d->stacks, (struct page_stack){.is_folded = true}) ||
        !vec_push(&b->d->nodes, (struct page_node){0}))
        return err_no_memory(e, "call stacks");
    if (page_tree_frame(&b->tree, b->d, gap, &b->d->left_out, e) != 0)
        return -1;
    for (size_t i = 0; i < b->candidates.len; i++) {
        trace_swept_block(b->trace, i, b->candidates.len);
        if (place_stack(b, &b->candidates.at[i], e) != 0)
            return -1;
    }
    trace_loaded(b->trace);
    return 0;
}
