#include "analysis/names/program_frames.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/names/frames.h"
#include "base/format.h"
#include "trace/store/frame_name.h"

#define UNSEEN UINT32_MAX
#define NOT_PROGRAM (UINT32_MAX - 1)

static uint32_t image_of(const struct program_frames *p, uint32_t node)
{
    const struct callstacks *c = &p->trace->callstacks;
    return node ? c->frames.at[c->nodes.at[node].frame].image : 0;
}

/* The innermost function of a script that called the runtime's `at`, or `at`. */
static struct stack_place script_of(const struct program_frames *p, struct stack_place at)
{
    const struct callstacks *c = &p->trace->callstacks;
    const struct runtimes *r = &p->runtimes;
    uint32_t begin = image_of(p, at.node);
    bool inside = r->generated && (begin == r->generated || runtimes_have(r, begin));
    for (uint32_t node = at.node; node && inside; node = c->nodes.at[node].parent) {
        uint32_t image = image_of(p, node);
        struct frame_view f = frame_describe(p->trace, c->nodes.at[node].frame, 0);
        if (image == r->generated && runtimes_is_program(&f))
            return (struct stack_place){node, 0};
        inside =
            image == r->generated || frame_image_is_special(f.image) || runtimes_have(r, image);
    }
    return at;
}

int program_frames_init(struct program_frames *p, const struct trace *t,
                        const struct skiplist *skip, struct err *e)
{
    static const struct skiplist built_in = {0};
    size_t frames = t->callstacks.frames.len + 1;
    *p =
        (struct program_frames){.trace = t, .frame_count = frames, .skip = skip ? skip : &built_in};
    p->found = pageable_zeroed(t->memory.pageable, frames * sizeof *p->found);
    p->is_client = pageable_zeroed(t->memory.pageable, frames);
    if (!p->found || !p->is_client) {
        program_frames_release(p);
        return err_no_memory(e, "frames");
    }
    memset(p->found, 0xff, frames * sizeof *p->found);
    if (runtimes_find(&p->runtimes, t, e) != 0) {
        program_frames_release(p);
        return -1;
    }
    if (p->skip->names_alone)
        return 0;
    if ((p->skip->found ? wrapper_functions_join(&p->wrappers, p->skip->found, e)
                        : wrapper_functions_find(&p->wrappers, t, p->skip, e)) == 0)
        return 0;
    program_frames_release(p);
    return -1;
}

int program_frames_pass_over(struct program_frames *p, const struct wrapper_functions *more,
                             struct err *e)
{
    return wrapper_functions_join(&p->wrappers, more, e);
}

void program_frames_release(struct program_frames *p)
{
    struct pageable *from = p->trace ? p->trace->memory.pageable : NULL;
    pageable_free(from, p->found, p->frame_count * sizeof *p->found);
    pageable_free(from, p->is_client, p->frame_count);
    wrapper_functions_release(&p->wrappers);
    runtimes_release(&p->runtimes);
    *p = (struct program_frames){0};
}

static struct frame_verdict verdict_of(const struct program_frames *p, const struct frame_view *f)
{
    static const struct frame_verdict cut = {FRAME_ALLOCATOR, .rule = "the limit of call stacks"};
    static const struct frame_verdict wrapper = {
        FRAME_ALLOCATOR, .rule = "allocation wrapper, by its callers and sizes"};
    if (frame_name_is_cut(f->function))
        return cut;
    if (f->function.len == 0 && f->file.len == 0)
        return (struct frame_verdict){.class = FRAME_PROGRAM};
    struct frame_verdict v = skiplist_verdict(p->skip, f->function, f->file, f->image);
    bool may_wrap = v.class == FRAME_PROGRAM && f->has_name && !v.kept;
    return may_wrap && wrapper_functions_have(&p->wrappers, f->function) ? wrapper : v;
}

static enum frame_class class_of(const struct program_frames *p, const struct frame_view *f)
{
    return verdict_of(p, f).class;
}

/*
 * The innermost function of a frame that belongs to the program. Functions called by
 * instrumentation count as instrumentation.
 */
static uint32_t look_at_frame(struct program_frames *p, uint32_t frame)
{
    if (p->found[frame] != UNSEEN)
        return p->found[frame];
    uint32_t depth = frame_depth(p->trace, frame);
    uint32_t found = NOT_PROGRAM;
    for (uint32_t i = 0; i < depth; i++) {
        struct frame_view f = frame_describe(p->trace, frame, i);
        enum frame_class class = class_of(p, &f);
        if (class == FRAME_PROGRAM && found == NOT_PROGRAM)
            found = i;
        if (class == FRAME_INSTRUMENTATION) {
            p->is_client[frame] = 1;
            found = NOT_PROGRAM;
        }
    }
    return p->found[frame] = found;
}

/*
 * If no frame belongs to the program: the innermost one that is not instrumentation, or the
 * outermost.
 */
static struct stack_place begin_of_machinery(const struct program_frames *p, uint32_t start)
{
    const struct callstacks *c = &p->trace->callstacks;
    struct stack_place at = {start, 0};
    for (uint32_t node = start; node; node = c->nodes.at[node].parent) {
        uint32_t frame = c->nodes.at[node].frame;
        for (uint32_t i = 0; i < frame_depth(p->trace, frame); i++) {
            struct frame_view f = frame_describe(p->trace, frame, i);
            at = (struct stack_place){node, i};
            if (class_of(p, &f) != FRAME_INSTRUMENTATION)
                return at;
        }
    }
    return at;
}

/*
 * Instrumentation is at the inner end of a call stack. Further out, such frames are the client's
 * own threads.
 */
#define CLIENT_FRAMES_MAX 8

uint32_t program_frames_function(struct program_frames *p, uint32_t frame)
{
    uint32_t found = look_at_frame(p, frame);
    return found == NOT_PROGRAM ? NO_PROGRAM_FUNCTION : found;
}

uint32_t program_frames_start(struct program_frames *p, uint32_t callstack)
{
    const struct callstacks *c = &p->trace->callstacks;
    const struct callstack *stack = callstacks_get(c, callstack);
    uint32_t start = stack ? stack->node : 0;
    uint32_t node = start;
    for (int i = 0; node && i < CLIENT_FRAMES_MAX; i++, node = c->nodes.at[node].parent) {
        (void)look_at_frame(p, c->nodes.at[node].frame);
        if (p->is_client[c->nodes.at[node].frame])
            start = node;
    }
    return start;
}

/* Functions at the outer end of every call stack: they say nothing about an allocation. */
static bool is_start(struct view function)
{
    static const char *const starts[] = {
        "main",         "_start",   "__libc_start_main", "__libc_start_call_main",
        "start_thread", "__clone3", "__GI___clone3",     "clone3",
        "__clone",      "clone",    "call_init",         "_dl_init",
    };
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        if (view_equal(function, view_of(starts[i])))
            return true;
    }
    return false;
}

struct stack_place program_frames_caller(struct program_frames *p, struct stack_place of)
{
    const struct callstacks *c = &p->trace->callstacks;
    struct view function = {"", 0};
    uint32_t inlined = of.inlined;
    for (uint32_t node = of.node; node; node = c->nodes.at[node].parent, inlined = 0) {
        uint32_t frame = c->nodes.at[node].frame;
        uint32_t depth = frame_depth(p->trace, frame);
        for (; inlined < depth; inlined++) {
            struct frame_view f = frame_describe(p->trace, frame, inlined);
            if (node == of.node && inlined == of.inlined) {
                function = f.function;
                continue;
            }
            if (!f.has_name || view_equal(f.function, function))
                continue;
            if (is_start(f.function) && !view_equal(f.function, view_of("main")))
                return (struct stack_place){0};
            bool is_program = depth == 1 ? look_at_frame(p, frame) != NOT_PROGRAM
                                         : class_of(p, &f) == FRAME_PROGRAM;
            if (is_program)
                return (struct stack_place){node, inlined};
        }
    }
    return (struct stack_place){0};
}

/* Whether a client described the frame itself: an interpreted function, as of Python. */
static bool is_source(const struct callstacks *c, uint32_t frame)
{
    return c->frames.at[frame].id >> 62 == FRAME_ID_CUSTOM >> 62;
}

/*
 * The nearest caller with a name of a function that has none, as in a stripped image: one of the
 * same image if there is one, else of the code that called into the image. Where that code was
 * itself called by the image, it only calls back (qsort, an event loop), and a function without an
 * image may be generated code of any origin: then, or if only a start has a name, the function
 * itself. An interpreted function has no image, and is the caller.
 */
static struct stack_place named_caller(struct program_frames *p, struct stack_place nameless)
{
    const struct callstacks *c = &p->trace->callstacks;
    uint32_t frame = c->nodes.at[nameless.node].frame;
    struct view image = frame_describe(p->trace, frame, nameless.inlined).image;
    struct stack_place other = {0};
    for (uint32_t node = nameless.node; node; node = c->nodes.at[node].parent) {
        frame = c->nodes.at[node].frame;
        uint32_t found = look_at_frame(p, frame);
        struct frame_view f = frame_describe(p->trace, frame, found == NOT_PROGRAM ? 0 : found);
        bool is_same = view_equal(f.image, image);
        if (found != NOT_PROGRAM && is_source(c, frame) && f.has_name && f.line)
            return other.node ? other : (struct stack_place){node, found};
        if (found == NOT_PROGRAM && is_source(c, frame))
            continue;
        if (frame_image_is_special(f.image) || is_start(f.function))
            break;
        if (is_same)
            other.node = 0;
        if (found == NOT_PROGRAM || !f.has_name)
            continue;
        if (is_same)
            return (struct stack_place){node, found};
        if (!other.node)
            other = (struct stack_place){node, found};
    }
    return other.node ? other : nameless;
}

/* Whether a file is of CPython's standard library, "/usr/lib/python3.11/json/decoder.py". */
static bool is_library_file(struct view file)
{
    static const char folder[] = "/lib/python3.", frozen[] = "<frozen ";
    if (file.len >= sizeof frozen - 1 && memcmp(file.p, frozen, sizeof frozen - 1) == 0)
        return true;
    const char *at = memmem(file.p, file.len, folder, sizeof folder - 1);
    struct view rest = {at, at ? (size_t)(file.p + file.len - at) : 0};
    return at && !memmem(rest.p, rest.len, "-packages/", sizeof "-packages/" - 1);
}

/*
 * Whether a function is of CPython's standard library, as of json or pickle, an extension module or
 * interpreted. It allocates for its caller.
 */
static bool is_of_module(const struct program_frames *p, const struct frame_view *f)
{
    static const char folder[] = "/lib-dynload/";
    return (memmem(f->image.p, f->image.len, folder, sizeof folder - 1) ||
            (f->image.len == 0 && is_library_file(f->file))) &&
           !verdict_of(p, f).kept;
}

/* A wrapper of the program's own in that node; `inlined` UINT32_MAX: there is none. */
static struct stack_place wrapper_in(const struct program_frames *p, uint32_t node)
{
    uint32_t frame = p->trace->callstacks.nodes.at[node].frame;
    for (uint32_t i = 0; i < frame_depth(p->trace, frame) && p->wrappers.list.len; i++) {
        struct frame_view f = frame_describe(p->trace, frame, i);
        if (wrapper_functions_have(&p->wrappers, f.function) && class_of(p, &f) == FRAME_ALLOCATOR)
            return (struct stack_place){node, i};
    }
    return (struct stack_place){node, UINT32_MAX};
}

struct stack_place program_frames_begin(struct program_frames *p, uint32_t callstack)
{
    const struct callstacks *c = &p->trace->callstacks;
    const struct callstack *stack = callstacks_get(c, callstack);
    uint32_t innermost = stack ? stack->node : 0;
    uint32_t start = program_frames_start(p, callstack);
    struct stack_place wrapper = {0}, source = {0}, module = {0}, library = {0};
    for (uint32_t node = start; node; node = c->nodes.at[node].parent) {
        uint32_t frame = c->nodes.at[node].frame, found = look_at_frame(p, frame);
        if (found == NOT_PROGRAM) {
            struct stack_place own = wrapper_in(p, node);
            wrapper = own.inlined == UINT32_MAX ? wrapper : own;
            if (!source.node && is_source(c, frame))
                source.node = node;
            continue;
        }
        struct stack_place at = {node, found};
        struct frame_view f = frame_describe(p->trace, frame, found);
        if (is_of_module(p, &f)) {
            struct stack_place *first = is_source(c, frame) ? &library : &module;
            *first = first->node ? *first : at;
            continue;
        }
        if ((module.node || library.node) && !is_source(c, frame)) {
            at = library.node ? library : module;
            f = frame_describe(p->trace, c->nodes.at[at.node].frame, at.inlined);
        }
        if (!f.has_name) {
            at = named_caller(p, at);
            f = frame_describe(p->trace, c->nodes.at[at.node].frame, at.inlined);
        }
        if (source.node && (!f.has_name || is_start(f.function)))
            return source;
        return wrapper.node && !f.has_name ? wrapper : script_of(p, at);
    }
    if (module.node || library.node)
        return library.node ? library : module;
    return wrapper.node ? wrapper : begin_of_machinery(p, innermost);
}

/* ---- what was passed over */

static bool is_at(struct stack_place a, uint32_t node, uint32_t inlined)
{
    return a.node == node && a.inlined == inlined;
}

/* Why a function within the site is not the site. */
static void put_reason(const struct program_frames *p, const struct frame_view *f, struct buf *out)
{
    struct frame_verdict v = verdict_of(p, f);
    if (v.project)
        buf_printf(out, "%s of %s", v.rule, v.project);
    else if (v.rule)
        buf_puts(out, v.rule);
    else if (p->runtimes.generated)
        buf_puts(out, "of the runtime or its library");
    else if (is_of_module(p, f))
        buf_puts(out, "of CPython's standard library");
    else
        buf_puts(out, f->has_name ? "calls the image back" : "has no name");
}

static void put_reason_of_site(struct program_frames *p, struct stack_place site, bool nameless,
                               struct buf *out)
{
    uint32_t frame = p->trace->callstacks.nodes.at[site.node].frame;
    struct frame_view f = frame_describe(p->trace, frame, site.inlined);
    bool own = f.has_name && wrapper_functions_have(&p->wrappers, f.function);
    if (own && class_of(p, &f) == FRAME_ALLOCATOR)
        buf_puts(out, "site: an allocation wrapper; no caller has a name");
    else if (p->runtimes.generated &&
             p->trace->callstacks.frames.at[frame].image == p->runtimes.generated &&
             runtimes_is_program(&f))
        buf_puts(out, "site: the program's innermost function in generated code");
    else if (look_at_frame(p, frame) == NOT_PROGRAM)
        buf_puts(out, "site: the call stack has no function of the program");
    else if (!f.has_name)
        buf_puts(out, "site: the program's innermost function; no caller to name it by");
    else
        buf_puts(out, nameless ? "site: the nearest caller with a name"
                               : "site: the program's innermost function");
}

void program_frames_explain(struct program_frames *p, uint32_t callstack, struct buf *out)
{
    struct stack_place site = program_frames_begin(p, callstack);
    uint32_t client = program_frames_start(p, callstack);
    struct frame_walk walk = frame_walk_start(p->trace, callstack);
    bool called_by_client = client && client != walk.node, nameless = false, found = false;
    struct frame_view f;
    for (uint32_t node = walk.node; !found; node = walk.node) {
        found = is_at(site, node, walk.inlined);
        called_by_client &= node != client;
        if (!frame_walk_next(&walk, &f))
            return;
        struct buf name = {0};
        frame_short_name(&name, &f);
        buf_puts(out, "      ");
        format_terminal(out, buf_view(&name));
        buf_puts(out, ": ");
        if (found)
            put_reason_of_site(p, site, nameless, out);
        else if (called_by_client)
            buf_puts(out, "called by Tracy's client");
        else
            put_reason(p, &f, out);
        buf_puts(out, "\n");
        nameless |= !called_by_client && !f.has_name && class_of(p, &f) == FRAME_PROGRAM;
        buf_end(&name, &out->failed);
    }
}
