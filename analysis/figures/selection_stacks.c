/* Which call stacks an expression matches. */

#include <stdlib.h>
#include <string.h>

#include "analysis/figures/selection_parts.h"
#include "analysis/names/frames.h"
#include "base/pattern.h"

enum { UNSEEN, NO, YES };

struct matcher {
    const struct trace *trace;
    struct pattern *regex;
    uint8_t *frames; /* frame number → UNSEEN, NO, YES */
    uint8_t *nodes;  /* node → the same: whether it or one further out matches */
};

static bool matches(const struct matcher *m, struct view text)
{
    return text.len && pattern_matches(m->regex, text.p, text.len);
}

static uint8_t look_at_frame(struct matcher *m, uint32_t frame)
{
    uint8_t *seen = &m->frames[frame];
    if (*seen != UNSEEN)
        return *seen;
    *seen = NO;
    for (uint32_t i = 0; i < frame_depth(m->trace, frame) && *seen == NO; i++) {
        struct frame_view f = frame_describe(m->trace, frame, i);
        if (matches(m, f.function) || matches(m, f.file) || matches(m, f.image))
            *seen = YES;
    }
    return *seen;
}

/* Each node is examined once: those further out are known by then, or become so. */
static uint8_t look_at_stack(struct matcher *m, uint32_t node)
{
    const struct callstacks *c = &m->trace->callstacks;
    uint32_t at = node;
    uint8_t found = NO;
    for (; at; at = c->nodes.at[at].parent) {
        if (m->nodes[at] == UNSEEN)
            m->nodes[at] = look_at_frame(m, c->nodes.at[at].frame) == YES ? YES : UNSEEN;
        if (m->nodes[at] != UNSEEN) {
            found = m->nodes[at];
            break;
        }
    }
    for (; node && m->nodes[node] == UNSEEN; node = c->nodes.at[node].parent)
        m->nodes[node] = found;
    return found;
}

static int match_all(struct matcher *m, struct selection *s, struct err *e)
{
    const struct callstacks *c = &m->trace->callstacks;
    m->frames = calloc(c->frames.len + 1, 1);
    m->nodes = calloc(c->nodes.len + 1, 1);
    s->callstacks = calloc(c->list.len + 1, 1);
    if (!m->frames || !m->nodes || !s->callstacks)
        return err_no_memory(e, "call stacks");
    for (size_t id = 1; id <= c->list.len; id++)
        s->callstacks[id] = look_at_stack(m, c->list.at[id - 1].node) == YES;
    return 0;
}

int selection_match_callstacks(struct selection *s, struct err *e)
{
    const char *text = s->options.match;
    struct matcher m = {.trace = s->trace, .regex = pattern_new(text, strlen(text), e)};
    if (!m.regex)
        return e ? err_prefix(e, "--match '%s'", text) : -1;
    int status = match_all(&m, s, e);
    pattern_free(m.regex);
    free(m.frames);
    free(m.nodes);
    return status;
}
