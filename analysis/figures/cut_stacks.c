#include "analysis/figures/cut_stacks.h"

#include <stdlib.h>

#include "trace/store/frame_name.h"

static struct view text_of(const struct trace *t, uint32_t node)
{
    const struct callstacks *c = &t->callstacks;
    const struct frame *f = &c->frames.at[c->nodes.at[node].frame];
    return f->n ? strings_get(&t->strings, c->inlines.at[f->first].function) : (struct view){"", 0};
}

static void note_marker(struct cut_stacks *c, struct view text)
{
    uint32_t depth = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.p[i] >= '0' && text.p[i] <= '9')
            depth = depth * 10 + (uint32_t)(text.p[i] - '0');
    }
    c->depths_differ |= c->has_marker && depth != c->least;
    if (!c->has_marker || depth < c->least)
        c->least = depth;
    c->has_marker = true;
}

int cut_stacks_init(struct cut_stacks *c, const struct trace *t, struct err *e)
{
    const struct callstacks *s = &t->callstacks;
    const size_t size = (s->nodes.len + 1) * sizeof *c->roots;
    *c = (struct cut_stacks){.trace = t,
                             .size = size,
                             .roots = pageable_zeroed(t->memory.pageable, size),
                             .has_caller = calloc(s->frames.len / 8 + 1, 1)};
    if (!c->roots || !c->has_caller) {
        cut_stacks_release(c);
        return err_no_memory(e, "call stacks");
    }
    /* A node comes after the node of its caller. */
    for (uint32_t i = 1; i < s->nodes.len; i++) {
        const struct callstack_node *node = &s->nodes.at[i];
        c->roots[i] = node->parent ? c->roots[node->parent] : i;
        if (node->parent)
            c->has_caller[node->frame / 8] |= (uint8_t)(1u << node->frame % 8);
        else if (frame_name_is_cut(text_of(t, i)))
            note_marker(c, text_of(t, i));
    }
    c->is_bound = !c->has_marker && !trace_fact(t, "recorded", 0).p;
    return 0;
}

void cut_stacks_release(struct cut_stacks *c)
{
    if (c->roots)
        pageable_free(c->trace->memory.pageable, c->roots, c->size);
    free(c->has_caller);
    *c = (struct cut_stacks){0};
}

void cut_stacks_note(struct cut_stacks *c, uint32_t callstack)
{
    const struct callstack *stack = callstacks_get(&c->trace->callstacks, callstack);
    if (!stack || stack->len < c->deepest)
        return;
    bool deeper = stack->len > c->deepest;
    c->several = !deeper && (c->several || callstack != c->one);
    c->one = deeper ? callstack : c->one;
    c->deepest = stack->len;
}

bool cut_stacks_has(const struct cut_stacks *c, uint32_t callstack)
{
    const struct callstack *stack = callstacks_get(&c->trace->callstacks, callstack);
    uint32_t root = stack ? c->roots[stack->node] : 0;
    if (root == 0)
        return false;
    if (!c->is_bound)
        return frame_name_is_cut(text_of(c->trace, root));
    uint32_t frame = c->trace->callstacks.nodes.at[root].frame;
    return c->several && c->deepest >= CUT_STACKS_LEAST && stack->len == c->deepest &&
           c->has_caller[frame / 8] >> frame % 8 & 1;
}

uint32_t cut_stacks_depth(const struct cut_stacks *c)
{
    return c->has_marker ? c->least : c->deepest;
}
