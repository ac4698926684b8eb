#include "trace/store/frame_book.h"

#include <string.h>

#include "trace/store/samples.h"
#include "trace/store/store.h"

/* Kernel addresses have the top bit set; in a frame id it is at bit 61. */
static bool is_kernel(uint64_t frame_id)
{
    return !(frame_id & FRAME_ID_CUSTOM) && frame_address(frame_id) >> 63;
}

void frame_book_release(struct frame_book *b)
{
    vec_release(&b->uses);
    vec_release(&b->modules);
    vec_release(&b->kinds);
}

/* Makes room for that many frames. */
static int grow_uses(struct frame_book *b, size_t frames, struct err *e)
{
    if (!vec_reserve(&b->uses, frames))
        return err_no_memory(e, "call stack frames");
    while (b->uses.len < frames)
        b->uses.at[b->uses.len++] = 0;
    return 0;
}

static int use_frame(struct frame_book *b, uint64_t id, uint8_t use, struct err *e)
{
    uint32_t number = callstacks_frame(b->callstacks, id);
    if (number == UINT32_MAX)
        return err_no_memory(e, "call stack frames");
    if (grow_uses(b, (size_t)number + 1, e) != 0)
        return -1;
    b->uses.at[number] |= use;
    return 0;
}

int frame_book_note_instructions(struct frame_book *b, struct err *e)
{
    if (grow_uses(b, b->callstacks->frames.len, e) != 0)
        return -1;
    for (size_t i = 0; i < b->uses.len; i++) {
        if (b->uses.at[i] == 0)
            b->uses.at[i] = FRAME_INSTRUCTION;
    }
    return 0;
}

/*
 * The innermost frame of a sample was running, and so was the program's innermost one if the kernel
 * had interrupted it. All others are return addresses.
 */
int frame_book_use(struct frame_book *b, const uint64_t *frame_ids, size_t n, bool sample,
                   struct err *e)
{
    bool running = sample;
    for (size_t i = 0; i < n; i++) {
        bool kernel = is_kernel(frame_ids[i]);
        uint8_t use = running && !kernel ? FRAME_RUNNING : FRAME_RETURN;
        running = running && kernel;
        if (use_frame(b, frame_ids[i], use, e) != 0)
            return -1;
    }
    return 0;
}

static int use_stack_of_sample(struct frame_book *b, uint32_t id, struct err *e)
{
    const struct callstacks *c = b->callstacks;
    const struct callstack *stack = callstacks_get(c, id);
    bool running = true;
    for (uint32_t node = stack ? stack->node : 0; node; node = c->nodes.at[node].parent) {
        uint64_t frame = c->frames.at[c->nodes.at[node].frame].id;
        bool kernel = is_kernel(frame);
        if (use_frame(b, frame, running && !kernel ? FRAME_RUNNING : FRAME_RETURN, e) != 0)
            return -1;
        running = running && kernel;
    }
    return 0;
}

static int use_samples(struct frame_book *b, struct trace *t, struct err *e)
{
    struct column_walk w = column_walk(&t->samples.sorted);
    int status = 0;
    for (const struct sample *s; (s = column_walk_next(&w, &status, e));)
        status = use_stack_of_sample(b, s->callstack, e);
    return status;
}

/* Frames of call stacks without samples are return addresses. */
static int use_nodes(struct frame_book *b, const struct callstacks *c, struct err *e)
{
    if (grow_uses(b, c->frames.len, e) != 0)
        return -1;
    for (size_t i = 1; i < c->nodes.len; i++) {
        uint8_t *uses = &b->uses.at[c->nodes.at[i].frame];
        if (*uses == 0)
            *uses = FRAME_RETURN;
    }
    return 0;
}

int frame_book_take_modules(struct frame_book *b, const struct trace *t, struct err *e)
{
    static const char prefix[] = "tidemark.module=";
    size_t skip = sizeof prefix - 1;
    for (size_t i = 0; i < t->app_info.len; i++) {
        struct view text = strings_get(&t->strings, t->app_info.at[i]);
        if (text.len <= skip || memcmp(text.p, prefix, skip) != 0)
            continue;
        if (!vec_push(&b->modules, (struct view){text.p + skip, text.len - skip}))
            return err_no_memory(e, "the module table");
    }
    return 0;
}

int frame_book_of_trace(struct frame_book *b, struct trace *t, struct err *e)
{
    *b = (struct frame_book){.callstacks = &t->callstacks, .strings = &t->strings};
    if (frame_book_take_modules(b, t, e) != 0)
        return -1;
    if (t->samples.finished && use_samples(b, t, e) != 0)
        return -1;
    return use_nodes(b, &t->callstacks, e);
}

/* ---- renaming */

static struct view image_of(const struct frame_book *b, size_t frame)
{
    return strings_get(b->strings, b->callstacks->frames.at[frame].image);
}

static enum frame_name_kind parse_outermost(const struct frame_book *b, size_t frame)
{
    const struct frame *f = &b->callstacks->frames.at[frame];
    const struct rec_inline_frame *in = &b->callstacks->inlines.at[f->first + f->n - 1];
    return frame_name_parse(strings_get(b->strings, in->function), image_of(b, frame)).kind;
}

/*
 * The kind of the outermost function's name. It is needed several times in varying order, and texts
 * are scattered in memory, so it is cached. Without memory for the cache it is computed again.
 */
static enum frame_name_kind kind_of(struct frame_book *b, size_t frame)
{
    const struct frame *f = &b->callstacks->frames.at[frame];
    if (f->n == 0)
        return FRAME_NAME_NONE;
    if (b->kinds.len <= frame && vec_reserve(&b->kinds, b->callstacks->frames.len)) {
        memset(b->kinds.at + b->kinds.len, 0,
               (b->callstacks->frames.len - b->kinds.len) * sizeof *b->kinds.at);
        b->kinds.len = b->callstacks->frames.len;
    }
    struct frame_kind *k = frame < b->kinds.len ? &b->kinds.at[frame] : NULL;
    if (k && k->known && k->first == f->first)
        return (enum frame_name_kind)k->kind;
    enum frame_name_kind kind = parse_outermost(b, frame);
    if (k)
        *k = (struct frame_kind){.first = f->first, .known = true, .kind = (uint8_t)kind};
    return kind;
}

bool frame_book_is_named(struct frame_book *b, size_t frame)
{
    return kind_of(b, frame) >= FRAME_NAME_NEAR;
}

bool frame_book_wants(struct frame_book *b, size_t frame, enum frame_policy policy,
                      enum frame_knowledge knowledge, size_t n, bool has_file)
{
    const struct frame *f = &b->callstacks->frames.at[frame];
    enum frame_name_kind kind = kind_of(b, frame);
    if (kind <= FRAME_NAME_UNRESOLVED)
        return true;
    if (policy == FRAME_UNKNOWN || knowledge == FRAME_PLACE)
        return false;
    if (policy == FRAME_ALL)
        return true;
    /* A dynamic symbol at some distance may be another function. */
    if (kind == FRAME_NAME_NEAR || n > f->n)
        return kind != FRAME_NAME_NEAR ? knowledge == FRAME_DEBUG : true;
    const struct rec_inline_frame *in = &b->callstacks->inlines.at[f->first];
    return knowledge == FRAME_DEBUG && has_file &&
           frame_file_is_unknown(strings_get(b->strings, in->file), image_of(b, frame));
}

int frame_book_rename(struct frame_book *b, size_t frame, uint32_t image,
                      const struct rec_inline_frame *inlines, size_t n, struct err *e)
{
    struct callstacks *c = b->callstacks;
    struct frame *f = &c->frames.at[frame];
    if (!vec_reserve(&c->inlines, c->inlines.len + n) || c->inlines.len + n > UINT32_MAX)
        return err_no_memory(e, "call stack frames");
    if (image)
        f->image = image;
    f->first = (uint32_t)c->inlines.len;
    f->n = (uint32_t)n;
    memcpy(c->inlines.at + c->inlines.len, inlines, n * sizeof *inlines);
    c->inlines.len += n;
    (void)kind_of(b, frame); /* while the text is cached */
    return 0;
}
