#include "analysis/sites.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* What is known of a frame's site. */
#define UNSEEN UINT32_MAX
#define NOT_PROGRAM (UINT32_MAX - 1)

struct builder {
    struct sites *sites;
    const struct trace *trace;
    const struct skiplist *skip;
    enum site_detail detail;
    uint32_t *of_frame; /* frame number → site of its innermost program function */
    uint8_t *is_client; /* frame number → does it hold a function of the instrumentation? */
    struct map numbers; /* content hash → site number; the next key where two contents collide */
    XXH64_hash_t seed;
    struct buf content;
};

static void content_put(struct buf *b, struct view text)
{
    buf_u64(b, text.len);
    buf_put(b, text.p, text.len);
}

/* Everything that tells the site apart, as bytes. */
static void site_content(struct buf *b, const struct frame_view *f)
{
    buf_clear(b);
    content_put(b, f->function);
    content_put(b, f->file);
    content_put(b, f->image);
    buf_u32(b, f->line);
    buf_u64(b, f->address);
}

static bool site_equal(const struct frame_view *a, const struct frame_view *b)
{
    return view_equal(a->function, b->function) && view_equal(a->file, b->file) &&
           view_equal(a->image, b->image) && a->line == b->line && a->address == b->address;
}

/* The number of the site at a frame; UNSEEN with `e` filled when memory is short. */
static uint32_t site_number(struct builder *b, struct frame_view f, struct err *e)
{
    if (f.function.len || b->detail == SITE_BY_FUNCTION)
        f.address = 0;
    if (b->detail == SITE_BY_FUNCTION)
        f.line = 0;
    f.is_inline = false;
    f.offset = 0;
    site_content(&b->content, &f);
    if (b->content.failed) {
        err_no_memory(e, "allocation sites");
        return UNSEEN;
    }
    uint64_t key = XXH3_64bits_withSeed(b->content.data, b->content.len, b->seed);
    for (;; key++) {
        bool fresh;
        uint64_t *number = map_add(&b->numbers, key, &fresh);
        if (number && !fresh && site_equal(&b->sites->list.at[*number].frame, &f))
            return (uint32_t)*number;
        if (number && !fresh)
            continue;
        if (!number || b->sites->list.len >= NOT_PROGRAM ||
            !vec_push(&b->sites->list, (struct site){.frame = f})) {
            err_no_memory(e, "allocation sites");
            return UNSEEN;
        }
        *number = b->sites->list.len - 1;
        return (uint32_t)*number;
    }
}

static enum frame_class class_of(const struct builder *b, const struct frame_view *f)
{
    if (f->function.len == 0 && f->file.len == 0)
        return FRAME_PROGRAM;
    return skiplist_class(b->skip, f->function, f->file);
}

/*
 * Looks for the innermost function of a frame that belongs to the program. What instrumentation
 * called is instrumentation, whatever its name.
 */
static int look_at_frame(struct builder *b, uint32_t frame, struct err *e)
{
    uint32_t depth = frame_depth(b->trace, frame);
    uint32_t found = depth;
    struct frame_view f;
    for (uint32_t i = 0; i < depth; i++) {
        f = frame_describe(b->trace, frame, i);
        enum frame_class class = class_of(b, &f);
        if (class == FRAME_PROGRAM && found == depth)
            found = i;
        if (class == FRAME_INSTRUMENTATION) {
            b->is_client[frame] = 1;
            found = depth;
        }
    }
    b->of_frame[frame] = NOT_PROGRAM;
    if (found < depth) {
        f = frame_describe(b->trace, frame, found);
        b->of_frame[frame] = site_number(b, f, e);
    }
    return b->of_frame[frame] == UNSEEN ? -1 : 0;
}

/* No frame is of the program: the innermost one that is not instrumentation, or the outermost. */
static uint32_t site_of_machinery(struct builder *b, uint32_t callstack, struct err *e)
{
    struct frame_walk w = frame_walk_start(b->trace, callstack);
    struct frame_view f = {.function = {"", 0}, .file = {"", 0}, .image = {"", 0}};
    while (frame_walk_next(&w, &f) && class_of(b, &f) == FRAME_INSTRUMENTATION)
        ;
    return site_number(b, f, e);
}

/*
 * Instrumentation sits at the inner end of a call stack. Deeper down such frames are something
 * else: the threads of the client itself.
 */
#define CLIENT_FRAMES_MAX 8

/* The site of a call stack; UNSEEN on an error. */
static uint32_t site_of_callstack(struct builder *b, uint32_t callstack, struct err *e)
{
    const struct callstacks *c = &b->trace->callstacks;
    uint32_t start = c->list.at[callstack - 1].node;
    if (start == 0)
        return SITE_NO_CALLSTACK;
    uint32_t node = start;
    for (int i = 0; node && i < CLIENT_FRAMES_MAX; i++, node = c->nodes.at[node].parent) {
        uint32_t frame = c->nodes.at[node].frame;
        if (b->of_frame[frame] == UNSEEN && look_at_frame(b, frame, e) != 0)
            return UNSEEN;
        if (b->is_client[frame])
            start = node;
    }
    for (node = start; node; node = c->nodes.at[node].parent) {
        uint32_t frame = c->nodes.at[node].frame;
        if (b->of_frame[frame] == UNSEEN && look_at_frame(b, frame, e) != 0)
            return UNSEEN;
        if (b->of_frame[frame] != NOT_PROGRAM)
            return b->of_frame[frame];
    }
    return site_of_machinery(b, callstack, e);
}

static int build(struct builder *b, struct err *e)
{
    struct sites *s = b->sites;
    size_t frames = b->trace->callstacks.frames.len;
    s->callstack_count = b->trace->callstacks.list.len + 1;
    s->of_callstack = calloc(s->callstack_count, sizeof *s->of_callstack);
    b->of_frame = malloc((frames + 1) * sizeof *b->of_frame);
    b->is_client = calloc(frames + 1, 1);
    struct site none = {.frame = {.function = {"", 0}, .file = {"", 0}, .image = {"", 0}}};
    if (!s->of_callstack || !b->of_frame || !b->is_client || !vec_push(&s->list, none))
        return err_no_memory(e, "allocation sites");
    for (size_t i = 0; i < frames; i++)
        b->of_frame[i] = UNSEEN;
    for (size_t id = 1; id < s->callstack_count; id++) {
        s->of_callstack[id] = site_of_callstack(b, (uint32_t)id, e);
        if (s->of_callstack[id] == UNSEEN)
            return -1;
    }
    return 0;
}

int sites_build(struct sites *s, const struct trace *t, const struct skiplist *skip,
                enum site_detail detail, struct err *e)
{
    *s = (struct sites){0};
    struct builder b = {.sites = s, .trace = t, .skip = skip, .detail = detail};
    b.seed = map_hash(UINT64_C(0x7369746573));
    int status = build(&b, e);
    free(b.of_frame);
    free(b.is_client);
    map_release(&b.numbers);
    buf_release(&b.content);
    if (status != 0)
        sites_release(s);
    return status;
}

void sites_release(struct sites *s)
{
    vec_release(&s->list);
    free(s->of_callstack);
    *s = (struct sites){0};
}
