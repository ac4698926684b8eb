/* Buffered events, and the call stacks that events refer to. */

#include "run/recording/recording_internal.h"
#include "trace/store/frame_name.h"

#define STACK_MOST 512u

int recording_flush(struct recording *r, struct err *e)
{
    size_t n = r->n;
    const struct event_sink *sink = &r->target->in->sink;
    r->n = 0;
    return n ? sink->memory(sink->ctx, r->events, n, e) : 0;
}

/* Names the frame that marks cut call stacks. */
static int name_cut(const struct recording *r, struct err *e)
{
    struct trace *t = r->target->in->trace;
    char text[FRAME_CUT_SIZE];
    uint32_t depth = r->header.options.depth;
    frame_name_cut(text, depth ? depth : REC_DEPTH);
    struct rec_inline_frame cut = {.function = strings_intern(&t->strings, view_of(text), e),
                                   .file = strings_intern(&t->strings, view_of("[unknown]"), e)};
    return cut.function && cut.file
               ? callstacks_resolve(&t->callstacks, FRAME_CUT, cut.file, &cut, 1, e)
               : -1;
}

/* Adds the call stack of a node, outermost frame last. */
static int intern(struct recording *r, struct stack_node *first, struct err *e)
{
    const struct event_sink *sink = &r->target->in->sink;
    uint64_t frames[STACK_MOST];
    uint32_t n = 0;
    bool fresh;
    for (struct stack_node *node = first; node && n < STACK_MOST;) {
        bool source = node->parent & REC_NODE_SOURCE;
        if ((source ? recording_source(r, node->pc, &frames[n], e)
                    : process_images_frame(&r->images, node->pc, &frames[n], e)) != 0)
            return -1;
        /* Look-ups of frames subtract one, as for return addresses. */
        frames[n] += !source && node->parent & REC_NODE_EXACT ? 1 : 0;
        n++;
        node = nodes_get(&r->nodes, node->parent & REC_NODE_MASK);
    }
    if (n && frames[n - 1] == FRAME_CUT && name_cut(r, e) != 0)
        return -1;
    return sink->callstack(sink->ctx, frames, n, &first->callstack, &fresh, e);
}

int recording_callstack(struct recording *r, uint64_t number, uint32_t *id, struct err *e)
{
    struct stack_node *node = nodes_get(&r->nodes, number);
    *id = 0;
    if (!node) {
        r->counts.stackless += number != 0;
        return 0;
    }
    if (!node->callstack && intern(r, node, e) != 0)
        return -1;
    *id = node->callstack;
    return 0;
}
