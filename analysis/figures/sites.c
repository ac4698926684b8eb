#include "analysis/figures/sites.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "analysis/names/permanent.h"

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
    struct known_site *of_frame; /* by frame number; not of permanent blocks */
    uint8_t *permanent;          /* by call stack id; NULL: sites are not divided so */
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
static void site_content(struct buf *b, const struct frame_view *f, uint8_t permanent)
{
    buf_clear(b);
    buf_u8(b, permanent);
    content_put(b, f->function);
    content_put(b, f->file);
    content_put(b, f->image);
    buf_u32(b, f->line);
    buf_u64(b, f->address);
}

static bool is_site(const struct site *s, const struct frame_view *b, uint8_t permanent)
{
    const struct frame_view *a = &s->frame;
    return s->permanent == permanent && view_equal(a->function, b->function) &&
           view_equal(a->file, b->file) && view_equal(a->image, b->image) && a->line == b->line &&
           a->address == b->address;
}

/* The number of the site of a frame; UNSEEN with `e` filled if memory is short. */
static uint32_t site_number(struct builder *b, struct frame_view f, uint8_t permanent,
                            struct err *e)
{
    if (f.function.len || b->detail == SITE_BY_FUNCTION)
        f.address = 0;
    if (b->detail == SITE_BY_FUNCTION)
        f.line = 0;
    f.is_inline = false;
    f.offset = 0;
    site_content(&b->content, &f, permanent);
    if (b->content.failed) {
        err_no_memory(e, "allocation sites");
        return UNSEEN;
    }
    uint64_t key = XXH3_64bits_withSeed(b->content.data, b->content.len, b->seed);
    for (;; key++) {
        bool fresh;
        uint64_t *number = map_add(&b->numbers, key, &fresh);
        if (number && !fresh && is_site(&b->sites->list.at[*number], &f, permanent))
            return (uint32_t)*number;
        if (number && !fresh)
            continue;
        if (!number || b->sites->list.len >= UNSEEN ||
            !pageable_push(b->sites->pageable, &b->sites->list,
                           (struct site){.frame = f, .permanent = permanent})) {
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
    uint8_t permanent = b->permanent ? b->permanent[callstack] : PERMANENT_NOT;
    if (permanent != PERMANENT_NOT)
        return site_number(b, frame_describe(b->trace, frame, at.inlined), permanent, e);
    if (known->site != UNSEEN && known->inlined == at.inlined)
        return known->site;
    known->inlined = at.inlined;
    known->site = site_number(b, frame_describe(b->trace, frame, at.inlined), PERMANENT_NOT, e);
    return known->site;
}

static int build(struct builder *b, struct err *e)
{
    struct sites *s = b->sites;
    size_t frames = b->trace->callstacks.frames.len;
    s->callstack_count = b->trace->callstacks.list.len + 1;
    s->pageable = b->trace->memory.pageable;
    s->of_callstack = pageable_zeroed(s->pageable, s->callstack_count * sizeof *s->of_callstack);
    b->numbers.pageable = s->pageable;
    b->of_frame = pageable_zeroed(s->pageable, (frames + 1) * sizeof *b->of_frame);
    struct site none = {.frame = {.function = {"", 0}, .file = {"", 0}, .image = {"", 0}}};
    if (!s->of_callstack || !b->of_frame || !pageable_push(s->pageable, &s->list, none))
        return err_no_memory(e, "allocation sites");
    memset(b->of_frame, 0xff, (frames + 1) * sizeof *b->of_frame); /* UNSEEN */
    if (b->detail == SITE_BY_LINE && !(b->permanent = permanent_of_callstacks(b->program, e)))
        return -1;
    for (size_t id = 1; id < s->callstack_count; id++) {
        s->of_callstack[id] = site_of_callstack(b, (uint32_t)id, e);
        if (s->of_callstack[id] == UNSEEN)
            return -1;
        trace_swept_block(b->trace, id, s->callstack_count);
    }
    trace_loaded(b->trace);
    return 0;
}

int sites_build_from(struct sites *s, struct program_frames *program, enum site_detail detail,
                     struct err *e)
{
    *s = (struct sites){0};
    struct builder b = {.sites = s, .trace = program->trace, .detail = detail, .program = program};
    b.seed = map_hash(UINT64_C(0x7369746573));
    int status = build(&b, e);
    struct pageable *from = program->trace->memory.pageable;
    pageable_free(from, b.of_frame,
                  (program->trace->callstacks.frames.len + 1) * sizeof *b.of_frame);
    pageable_free(from, b.permanent, s->callstack_count);
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
    pageable_vec_release(s->pageable, &s->list);
    pageable_free(s->pageable, s->of_callstack, s->callstack_count * sizeof *s->of_callstack);
    *s = (struct sites){0};
}
