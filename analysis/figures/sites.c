#include "analysis/figures/sites.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define UNSEEN UINT32_MAX

/* The site of a function of a frame, as found last. */
struct known_site {
    uint32_t site; /* UNSEEN: not yet */
    uint32_t inlined;
};

struct builder {
    struct sites *sites;
    const struct trace *trace;
    enum site_detail detail;
    struct program_frames *program;
    struct known_site *of_frame; /* by frame number */
    struct map numbers;          /* content hash → site number; on a collision, the next key */
    XXH64_hash_t seed;
    struct buf content;
};

static void content_put(struct buf *b, struct view text)
{
    buf_u64(b, text.len);
    buf_put(b, text.p, text.len);
}

/* The identity of the site as bytes. */
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

/* The number of the site of a frame; UNSEEN with `e` filled if memory is short. */
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
        if (!number || b->sites->list.len >= UNSEEN ||
            !vec_push(&b->sites->list, (struct site){.frame = f})) {
            err_no_memory(e, "allocation sites");
            return UNSEEN;
        }
        *number = b->sites->list.len - 1;
        return (uint32_t)*number;
    }
}

/* The site of a call stack; UNSEEN on an error. */
static uint32_t site_of_callstack(struct builder *b, uint32_t callstack, struct err *e)
{
    struct stack_place at = program_frames_begin(b->program, callstack);
    if (at.node == 0)
        return SITE_NO_CALLSTACK;
    uint32_t frame = b->trace->callstacks.nodes.at[at.node].frame;
    struct known_site *known = &b->of_frame[frame];
    if (known->site != UNSEEN && known->inlined == at.inlined)
        return known->site;
    known->inlined = at.inlined;
    known->site = site_number(b, frame_describe(b->trace, frame, at.inlined), e);
    return known->site;
}

static int build(struct builder *b, struct err *e)
{
    struct sites *s = b->sites;
    size_t frames = b->trace->callstacks.frames.len;
    s->callstack_count = b->trace->callstacks.list.len + 1;
    s->of_callstack = calloc(s->callstack_count, sizeof *s->of_callstack);
    b->of_frame = malloc((frames + 1) * sizeof *b->of_frame);
    struct site none = {.frame = {.function = {"", 0}, .file = {"", 0}, .image = {"", 0}}};
    if (!s->of_callstack || !b->of_frame || !vec_push(&s->list, none))
        return err_no_memory(e, "allocation sites");
    memset(b->of_frame, 0xff, (frames + 1) * sizeof *b->of_frame); /* UNSEEN */
    for (size_t id = 1; id < s->callstack_count; id++) {
        s->of_callstack[id] = site_of_callstack(b, (uint32_t)id, e);
        if (s->of_callstack[id] == UNSEEN)
            return -1;
    }
    return 0;
}

int sites_build_from(struct sites *s, struct program_frames *program, enum site_detail detail,
                     struct err *e)
{
    *s = (struct sites){0};
    struct builder b = {.sites = s, .trace = program->trace, .detail = detail, .program = program};
    b.seed = map_hash(UINT64_C(0x7369746573));
    int status = build(&b, e);
    free(b.of_frame);
    map_release(&b.numbers);
    buf_release(&b.content);
    if (status != 0)
        sites_release(s);
    return status;
}

int sites_build(struct sites *s, const struct trace *t, const struct skiplist *skip,
                enum site_detail detail, struct err *e)
{
    struct program_frames program;
    *s = (struct sites){0};
    if (program_frames_init(&program, t, skip, e) != 0)
        return -1;
    int status = sites_build_from(s, &program, detail, e);
    program_frames_release(&program);
    return status;
}

void sites_release(struct sites *s)
{
    vec_release(&s->list);
    free(s->of_callstack);
    *s = (struct sites){0};
}
