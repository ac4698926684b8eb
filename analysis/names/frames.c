#include "analysis/names/frames.h"

#include <inttypes.h>
#include <string.h>

#include "analysis/names/function_name.h"
#include "trace/store/frame_name.h"

/* What clients send in place of a name (client/TracyCallstack.cpp @ v0.9.1 … v0.14.0). */
static struct view known_text(struct view text)
{
    static const char *const placeholders[] = {"[unknown]", "[unresolved]", "[error]", "???"};
    for (size_t i = 0; i < sizeof placeholders / sizeof *placeholders; i++) {
        if (view_equal(text, view_of(placeholders[i])))
            return (struct view){"", 0};
    }
    return text;
}

struct frame_view frame_describe(const struct trace *t, uint32_t frame, uint32_t inlined)
{
    const struct callstacks *c = &t->callstacks;
    const struct frame *f = &c->frames.at[frame];
    struct frame_view v = {.function = {"", 0},
                           .file = {"", 0},
                           .image = known_text(strings_get(&t->strings, f->image)),
                           .address = frame_address(f->id)};
    if (inlined >= f->n)
        return v;
    const struct rec_inline_frame *in = &c->inlines.at[f->first + inlined];
    struct view text = strings_get(&t->strings, in->function);
    struct frame_name name = frame_name_parse(text, strings_get(&t->strings, f->image));
    v.function = name.name;
    v.offset = name.offset;
    v.has_name = name.kind >= FRAME_NAME_NEAR;
    v.base_unknown = frame_name_is_baseless(text);
    /* An offset in the image is better than nothing. */
    if (!v.has_name && frame_name_is_at(text))
        v.function = text;
    v.file = known_text(strings_get(&t->strings, in->file));
    if (frame_file_origin(v.file)) {
        v.name_from = (struct view){v.file.p + 1, v.file.len - 2};
        v.file = (struct view){"", 0};
    }
    v.line = in->line;
    if (v.function.len == 0) {
        v.offset = 0;
        /* Newer clients send the image as the file. */
        if (view_equal(v.file, v.image))
            v.file = (struct view){"", 0};
    }
    v.is_inline = inlined + 1 < f->n;
    return v;
}

uint32_t frame_depth(const struct trace *t, uint32_t frame)
{
    uint32_t n = t->callstacks.frames.at[frame].n;
    return n ? n : 1;
}

struct frame_walk frame_walk_start(const struct trace *t, uint32_t callstack)
{
    const struct callstack *stack = callstacks_get(&t->callstacks, callstack);
    return (struct frame_walk){.trace = t, .node = stack ? stack->node : 0};
}

bool frame_walk_next(struct frame_walk *w, struct frame_view *out)
{
    if (w->node == 0)
        return false;
    const struct callstack_node *node = &w->trace->callstacks.nodes.at[w->node];
    *out = frame_describe(w->trace, node->frame, w->inlined);
    if (++w->inlined >= frame_depth(w->trace, node->frame)) {
        w->inlined = 0;
        w->node = node->parent;
    }
    return true;
}

void frame_name(struct buf *out, const struct frame_view *f)
{
    if (f->function.len) {
        buf_put(out, f->function.p, f->function.len);
        return;
    }
    buf_puts(out, "[unknown]");
    if (f->image.len) {
        buf_puts(out, " ");
        buf_put(out, f->image.p, f->image.len);
    }
    if (f->base_unknown)
        buf_puts(out, " (base unknown)");
    if (f->address)
        buf_printf(out, " (0x%" PRIx64 ")", f->address);
}

void frame_short_name(struct buf *out, const struct frame_view *f)
{
    if (f->function.len)
        function_name_short(out, f->function);
    else
        frame_name(out, f);
}

void frame_bare_name(struct buf *out, const struct frame_view *f)
{
    char name[FUNCTION_NAME_SIZE];
    if (f->function.len)
        buf_put(out, name, function_name(f->function, name));
    else
        frame_name(out, f);
}

/* Whether many files have that name, or the function has none but that of its file. */
static bool needs_folder(struct view function, struct view file)
{
    static const char *const names[] = {"__init__.py", "__main__.py", "mod.rs", "lib.rs",
                                        "index.js"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (view_equal(file, view_of(names[i])))
            return true;
    }
    return view_equal(function, view_of("<module>"));
}

void frame_source(struct buf *out, const struct frame_view *f)
{
    struct view file = view_base_name(f->file);
    size_t folders = f->file.len - file.len;
    if (folders > 1 && needs_folder(f->function, file)) {
        struct view folder = view_base_name((struct view){f->file.p, folders - 1});
        file = (struct view){folder.p, folder.len + 1 + file.len};
    }
    if (file.len == 0)
        return;
    buf_puts(out, " (");
    buf_put(out, file.p, file.len);
    if (f->line)
        buf_printf(out, ":%" PRIu32, f->line);
    buf_puts(out, ")");
}
