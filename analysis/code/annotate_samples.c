/* Call stack samples by instruction. */

#include "analysis/code/annotate_parts.h"
#include "base/order.h"

/* Lines are adjacent. */
struct annotate_line *annotate_line_at(struct annotation *a, uint64_t address)
{
    uint64_t offset = address - a->function.address;
    size_t next = 1;
    if (offset >= a->shown)
        return NULL;
    BISECT(next, a->lines.len, i, a->lines.at[i].address - a->function.address <= offset);
    return &a->lines.at[next - 1];
}

/*
 * The address of a call stack's frame within the function. A sample's innermost frame is the
 * current address of the thread, all others are return addresses. False if it is not in the
 * function.
 */
static bool find_address(const struct annotation *a, uint32_t node, bool innermost,
                         uint64_t *address)
{
    const struct callstacks *c = &a->trace->callstacks;
    const struct frame *f = &c->frames.at[c->nodes.at[node].frame];
    *address = frame_address(f->id) - !innermost;
    return !(f->id & FRAME_ID_CUSTOM) && frame_address(f->id) && annotate_is_inside(a, *address);
}

/* A recursive call stack passes through a line several times; only the innermost counts. */
static bool is_counted(const struct annotation *a, uint32_t innermost, uint32_t node,
                       const struct annotate_line *line)
{
    const struct callstacks *c = &a->trace->callstacks;
    uint64_t address;
    for (uint32_t at = innermost; at != node; at = c->nodes.at[at].parent) {
        if (find_address(a, at, at == innermost, &address) && address - line->address < line->size)
            return true;
    }
    return false;
}

static void count_group(struct annotation *a, const struct sample_group *g)
{
    const struct callstacks *c = &a->trace->callstacks;
    const struct callstack *stack = callstacks_get(c, g->callstack);
    bool inside = false;
    for (uint32_t node = stack ? stack->node : 0; node; node = c->nodes.at[node].parent) {
        uint64_t address;
        bool innermost = node == stack->node;
        if (!find_address(a, node, innermost, &address))
            continue;
        struct annotate_line *line = annotate_line_at(a, address);
        inside = true;
        a->samples.self += innermost ? g->count : 0;
        if (line && !is_counted(a, stack->node, node, line)) {
            line->samples.self += innermost ? g->count : 0;
            line->samples.total += g->count;
        }
    }
    a->samples.total += inside ? g->count : 0;
}

void annotate_count_samples(struct annotation *a, const struct sample_input *samples,
                            const struct selection *s)
{
    for (size_t i = 0; i < samples->groups.len; i++) {
        if (sample_group_is_selected(samples, &samples->groups.at[i], s))
            count_group(a, &samples->groups.at[i]);
    }
}
