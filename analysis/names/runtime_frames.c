#include "analysis/names/runtime_frames.h"

#include <stdlib.h>
#include <string.h>

#include "trace/store/frame_name.h"

static uint32_t image_of(const struct callstacks *c, uint32_t node)
{
    return node ? c->frames.at[c->nodes.at[node].frame].image : 0;
}

bool runtimes_have(const struct runtimes *r, uint32_t image)
{
    for (size_t i = 0; i < r->images.len; i++) {
        if (r->images.at[i] == image)
            return true;
    }
    return false;
}

int runtimes_find(struct runtimes *r, const struct trace *t, struct err *e)
{
    const struct callstacks *c = &t->callstacks;
    uint32_t last = 0;
    for (size_t i = 0; i < c->frames.len && !r->generated; i++) {
        uint32_t image = c->frames.at[i].image;
        if (image != last &&
            view_equal(strings_get(&t->strings, image), view_of(FRAME_IMAGE_GENERATED)))
            r->generated = image;
        last = image;
    }
    for (size_t i = 1; i < c->nodes.len && r->generated; i++) {
        uint32_t image = image_of(c, c->nodes.at[i].parent);
        if (image_of(c, (uint32_t)i) != r->generated || image == r->generated ||
            frame_image_is_special(strings_get(&t->strings, image)) || runtimes_have(r, image))
            continue;
        if (!vec_push(&r->images, image))
            return err_no_memory(e, "images");
    }
    return 0;
}

void runtimes_release(struct runtimes *r)
{
    vec_release(&r->images);
}

/* Whether the text is a Java method, "J.load", and no file of node's, "node:fs". */
static bool is_method(const struct frame_view *f, struct view text)
{
    return f->has_name && memchr(text.p, '.', text.len) && !memchr(text.p, ':', text.len) &&
           !memchr(text.p, ' ', text.len);
}

bool runtimes_is_program(const struct frame_view *f)
{
    static const char *const libraries[] = {"node:", "java.", "javax.", "jdk.", "sun.", "com.sun."};
    struct view of = f->line ? f->file : f->function;
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        size_t n = strlen(libraries[i]);
        if (of.len >= n && memcmp(of.p, libraries[i], n) == 0)
            return false;
    }
    return f->line || is_method(f, of);
}

enum part { OTHER, RUNTIME, SCRIPT };

/* Code without an image and a name between a runtime's is the runtime's, as node's copied stubs. */
static enum part part_of(const struct runtimes *r, const struct trace *t, uint32_t frame)
{
    uint32_t image = t->callstacks.frames.at[frame].image;
    if (runtimes_have(r, image))
        return RUNTIME;
    if (!frame_image_is_special(strings_get(&t->strings, image)))
        return OTHER;
    struct frame_view f = frame_describe(t, frame, 0);
    if (image == r->generated)
        return f.line || is_method(&f, f.function) ? SCRIPT : RUNTIME;
    return f.has_name ? OTHER : RUNTIME;
}

struct place {
    uint32_t
        shown; /* the node itself or, if that is hidden, the nearest one outwards that is not */
    bool in_script; /* a script's function, or called by one */
};

/*
 * Nodes that no script called stay in order, for the call stacks without a script. Those beyond a
 * script's outermost function are shown until the first one of a runtime.
 */
static void close_gaps(const struct runtimes *r, struct trace *t, struct place *at)
{
    struct callstacks *c = &t->callstacks;
    for (size_t i = 1; i < c->nodes.len; i++) {
        struct callstack_node *n = &c->nodes.at[i];
        struct place beyond = at[n->parent];
        enum part part = part_of(r, t, n->frame);
        at[i] = (struct place){(uint32_t)i, beyond.in_script || part == SCRIPT};
        if (part == RUNTIME || (!at[i].in_script && beyond.shown != n->parent))
            at[i].shown = beyond.shown;
        if (at[i].in_script)
            n->parent = beyond.shown;
    }
    for (size_t i = 0; i < c->list.len; i++) {
        struct callstack *s = &c->list.at[i];
        if (!at[s->node].in_script)
            continue;
        s->node = at[s->node].shown;
        s->len = 0;
        for (uint32_t node = s->node; node; node = c->nodes.at[node].parent)
            s->len++;
    }
}

int runtime_frames_hide(struct trace *t, struct err *e)
{
    struct runtimes r = {0};
    int status = runtimes_find(&r, t, e);
    if (status == 0 && r.generated) {
        size_t bytes = t->callstacks.nodes.len * sizeof(struct place);
        struct place *at = pageable_zeroed(t->memory.pageable, bytes);
        if (at)
            close_gaps(&r, t, at);
        else
            status = err_no_memory(e, "call stacks");
        pageable_free(t->memory.pageable, at, bytes);
    }
    runtimes_release(&r);
    return status;
}
