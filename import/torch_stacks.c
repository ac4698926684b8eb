#include "import/torch_stacks.h"

#define FRAMES_MAX 255u

void torch_stacks_release(struct torch_stacks *s)
{
    map_release(&s->stacks);
    map_release(&s->frames);
}

static int new_frame(struct torch_stacks *s, struct torch_reader *r, uint64_t dict, uint64_t *frame,
                     struct err *e)
{
    struct torch_fields f;
    uint64_t line;
    if (torch_fields_read(r, dict, &f, e) < 0)
        return -1;
    if (!torch_number(r, &f, TORCH_LINE, &line) || line > UINT32_MAX)
        line = 0;
    struct view file = torch_text(r, &f, TORCH_FILE), name = torch_text(r, &f, TORCH_NAME);
    if (view_equal(file, view_of("??")))
        file = view_of("");
    return s->in->sink.custom_frame(s->in->sink.ctx, name.len ? name : view_of("??"), file,
                                    (uint32_t)line, frame, e);
}

static int frame_of(struct torch_stacks *s, struct torch_reader *r, uint64_t dict, uint64_t *frame,
                    struct err *e)
{
    bool fresh;
    uint64_t *known = map_add(&s->frames, dict, &fresh);
    if (!known)
        return err_no_memory(e, "call stacks");
    if (fresh && new_frame(s, r, dict, known, e) != 0)
        return -1;
    *frame = *known;
    return 0;
}

static int new_stack(struct torch_stacks *s, struct torch_reader *r, struct value_walk *walk,
                     uint32_t *callstack, struct err *e)
{
    uint64_t frames[FRAMES_MAX], frame;
    uint32_t n = 0;
    bool fresh;
    while (n < FRAMES_MAX && value_walk_next(walk, &frame)) {
        if (frame_of(s, r, frame, &frames[n++], e) != 0)
            return -1;
    }
    if (n == 0)
        return 0;
    bool deep = n == FRAMES_MAX && value_walk_next(walk, &frame);
    if (s->in->sink.callstack(s->in->sink.ctx, frames, n, callstack, &fresh, e) != 0)
        return -1;
    s->counts->notes[NOTE_DEEP_STACKS] += deep && fresh;
    return 0;
}

int torch_stack(struct torch_stacks *s, struct torch_reader *r, uint64_t list, uint32_t *callstack,
                struct err *e)
{
    struct value_walk walk = {0};
    bool fresh;
    *callstack = 0;
    if (value_kind(list) != VALUE_LIST || list == VALUE_LIST)
        return 0;
    uint64_t *known = map_add(&s->stacks, list, &fresh);
    if (!known)
        return err_no_memory(e, "call stacks");
    if (!fresh) {
        *callstack = (uint32_t)*known;
        return 0;
    }
    int status = value_walk_begin(&walk, &r->arena, list, e);
    if (status == 0)
        status = new_stack(s, r, &walk, callstack, e);
    *known = *callstack;
    value_walk_release(&walk);
    return status;
}

int torch_stack_before(struct torch_stacks *s, uint32_t *callstack, struct err *e)
{
    uint64_t frame;
    bool fresh;
    if (!s->beginning &&
        (s->in->sink.custom_frame(s->in->sink.ctx, view_of("(before the history)"), view_of(""), 0,
                                  &frame, e) != 0 ||
         s->in->sink.callstack(s->in->sink.ctx, &frame, 1, &s->beginning, &fresh, e) != 0))
        return -1;
    *callstack = s->beginning;
    return 0;
}
