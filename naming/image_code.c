#include "naming/image_code.h"

#include <stdio.h>
#include <stdlib.h>

#include "analysis/names/frames.h"
#include "base/format.h"
#include "trace/store/callstacks.h"

/* The open image. */
struct session {
    struct image_code *c;
    size_t number;
    const struct locate_image *image;
    struct buf path; /* of the opened file; empty: fetched */
};

/* Keeps the first problem of an image, which is reported if no code is found elsewhere. */
static int note_problem(struct session *s, const struct err *why, struct err *e)
{
    struct buf path = {0};
    if (why->code == ERR_MEMORY) {
        *e = *why;
        return -1;
    }
    format_terminal(&path, s->image->path);
    if (!s->c->problem[0])
        snprintf(s->c->problem, sizeof s->c->problem, "%.200s: %.250s", buf_str(&path), why->text);
    buf_release(&path);
    return 0;
}

static int session_open(struct session *s, struct image_code *c, size_t number, struct err *e)
{
    const struct locate_image *li = &c->places.locate.images.at[number];
    struct image_facts facts;
    *s = (struct session){.c = c, .number = number, .image = li};
    if (resolver_open(c->resolver, li->path, &li->build_id, frame_places_proof(&c->places, li),
                      &facts, e) != 0)
        return -1;
    c->machine = facts.machine;
    c->is_64 = facts.is_64;
    buf_put(&s->path, facts.path.p, facts.path.len);
    return s->path.failed ? err_no_memory(e, "the path of an image") : 0;
}

static void session_close(struct session *s)
{
    helper_close_image(&s->c->resolver->helper);
    buf_release(&s->path);
}

/* ---- code */

/* Whether an address of the client is in a function found already. */
static bool is_known(const struct session *s, uint64_t address)
{
    for (size_t i = s->c->found.len; i-- > 0;) {
        const struct image_function *f = &s->c->found.at[i];
        if (f->image == s->number && address - f->address < f->size)
            return true;
    }
    return false;
}

/* The trace's name of the function, unless it is only the nearest name before the address. */
static struct view name_in_trace(const struct session *s, size_t frame, uint64_t start)
{
    const struct trace *t = s->c->texts->trace;
    if (frame >= t->callstacks.frames.len || t->callstacks.frames.at[frame].n == 0)
        return (struct view){"", 0};
    const struct frame *f = &t->callstacks.frames.at[frame];
    struct frame_view v = frame_describe(t, (uint32_t)frame, f->n - 1);
    bool is_it = v.has_name && (v.offset == 0 || frame_address(f->id) - v.offset == start);
    return is_it ? v.function : (struct view){"", 0};
}

static int take_code(struct session *s, size_t frame, uint64_t address,
                     const struct place_code *code, struct err *e)
{
    struct image_function f = {.address = address - (code->address - code->start),
                               .start = code->start,
                               .size = code->size,
                               .image = s->number};
    struct annotate_code own = {
        .address = f.address,
        .size = code->size,
        .origin = {.path = {buf_str(&s->path), s->path.len}, .checked = s->image->build_id.len > 0},
        .name = code->name,
        .image = s->image->path};
    if (f.address > address || f.size > 0 - f.address - 1)
        return 0; /* no client has memory there */
    struct view name = name_in_trace(s, frame, f.address);
    if (name.len > 0)
        own.name = name;
    if (!vec_push(&s->c->found, f))
        return err_no_memory(e, "machine code");
    return annotate_texts_add(s->c->texts, &own, code->bytes, e);
}

static int read_function(struct session *s, size_t frame, struct err *e)
{
    const struct located *at = &s->c->places.locate.frames.at[frame];
    const struct locate_frame *f = &s->c->places.frames.at[frame];
    uint64_t address = f->address - !f->exact;
    struct place_code code;
    struct err none = {0};
    bool found;
    if (at->step == LOCATED_NOT) {
        err_set(&none, ERR_CHECK, "its base is unknown");
        return note_problem(s, &none, e);
    }
    if (is_known(s, address))
        return 0;
    const struct place place = {at->kind, at->value};
    if (helper_read_code(&s->c->resolver->helper, &place, &code, &found, e) != 0)
        return -1;
    if (found)
        return take_code(s, frame, address, &code, e);
    err_set(&none, ERR_CHECK, "no symbol or unwind entry has the function's end");
    return note_problem(s, &none, e);
}

static int read_image(struct image_code *c, size_t number, const bool *wanted, struct err *e)
{
    struct session s;
    struct helper_bias bias = {0};
    struct err cause = {0};
    size_t n;
    const uint32_t *frames = locate_frames_of(&c->places.locate, number, &n);
    bool any = false;
    for (size_t i = 0; i < n; i++)
        any |= wanted[frames[i]];
    if (!any)
        return 0;
    int status = session_open(&s, c, number, &cause);
    if (status == 0) {
        status = frame_places_infer(&c->places, number, &c->resolver->helper, &bias, &cause);
        for (size_t i = 0; i < n && status == 0; i++) {
            if (wanted[frames[i]])
                status = read_function(&s, frames[i], &cause);
        }
    }
    if (status != 0)
        status = note_problem(&s, &cause, e);
    session_close(&s);
    return status;
}

/* ---- which frames */

/* Places the frames of the trace, then the requested address. */
static int place_frames(struct image_code *c, const struct annotate_frames *asked, struct err *e)
{
    size_t n = c->book.callstacks->frames.len;
    for (size_t i = 0; i < n; i++) {
        if (frame_places_add(&c->places, i, e) != 0)
            return -1;
    }
    const struct locate_frame other = {
        .address = asked->address, .image = {"", 0}, .name = {"", 0}, .exact = true};
    if (asked->is_address && frame_places_add_other(&c->places, &other, e) != 0)
        return -1;
    return frame_places_locate(&c->places, e);
}

static int read_images(struct image_code *c, const struct annotate_frames *asked, struct err *e)
{
    bool *wanted = calloc(c->places.frames.len + 1, sizeof *wanted);
    int status = 0;
    if (!wanted)
        return err_no_memory(e, "frames of a trace");
    for (size_t i = 0; i < asked->list.len; i++)
        wanted[asked->list.at[i]] = true;
    if (asked->is_address)
        wanted[c->places.frames.len - 1] = true;
    for (size_t i = 0; i < c->places.locate.images.len && status == 0; i++)
        status = read_image(c, i, wanted, e);
    free(wanted);
    return status;
}

int image_code_find(struct image_code *c, struct resolver *resolver, struct annotate_texts *texts,
                    const char *wanted, bool regex, bool whole, struct err *e)
{
    struct annotate_frames asked;
    *c = (struct image_code){.resolver = resolver, .texts = texts};
    if (annotate_find_frames(&asked, texts->trace, wanted, regex, e) != 0)
        return -1;
    int status = 0;
    if (asked.is_address || (asked.list.len > 0 && !(whole && asked.is_part))) {
        status = frame_book_of_trace(&c->book, texts->trace, e);
        if (status == 0)
            status = frame_places_init(&c->places, resolver->options, &c->book, e);
        if (status == 0)
            status = place_frames(c, &asked, e);
        if (status == 0)
            status = read_images(c, &asked, e);
    }
    annotate_frames_release(&asked);
    return status;
}

void image_code_release(struct image_code *c)
{
    frame_places_release(&c->places);
    frame_book_release(&c->book);
    vec_release(&c->found);
}

/* ---- lines */

struct lines {
    struct image_code *c;
    const struct image_function *function;
    VEC(uint64_t) addresses; /* of instructions; in the client */
    VEC(struct place) places;
};

static int take_instruction(void *to, uint64_t address, size_t size, const char *text, bool known,
                            struct err *e)
{
    struct lines *l = to;
    (void)size;
    (void)text;
    (void)known;
    /* Frames of call stacks have the line of their call already. */
    if (callstacks_find_frame(&l->c->texts->trace->callstacks, address))
        return 0;
    uint64_t in_image = l->function->start + (address - l->function->address);
    return vec_push(&l->addresses, address) &&
                   vec_push(&l->places, (struct place){PLACE_ADDRESS, in_image})
               ? 0
               : err_no_memory(e, "machine code");
}

static int take_answer(void *ctx, size_t i, const struct place_answer *a, struct err *e)
{
    struct lines *l = ctx;
    struct trace *t = l->c->texts->trace;
    struct rec_inline_frame inlines[PLACE_FRAMES_MAX];
    if (a->n == 0 || a->frames[0].file.len == 0)
        return 0;
    const struct locate_image *li = &l->c->places.locate.images.at[l->function->image];
    for (size_t k = 0; k < a->n; k++) {
        const struct symbol_frame *f = &a->frames[k];
        struct view name = f->function.len ? f->function : view_of("[unknown]");
        struct view file = f->file.len ? f->file : view_of("[unknown]");
        inlines[k] = (struct rec_inline_frame){.line = f->line};
        inlines[k].function = strings_intern(&t->strings, name, e);
        inlines[k].file = inlines[k].function ? strings_intern(&t->strings, file, e) : 0;
        if (!inlines[k].file)
            return -1;
    }
    uint32_t image = strings_intern(&t->strings, li->path, e);
    return image ? callstacks_resolve(&t->callstacks, l->addresses.at[i], image, inlines,
                                      (uint32_t)a->n, e)
                 : -1;
}

static int collect_instructions(struct lines *l, const struct disassembler *d, struct err *e)
{
    struct place_code code;
    bool found;
    const struct place place = {PLACE_ADDRESS, l->function->start};
    if (helper_read_code(&l->c->resolver->helper, &place, &code, &found, e) != 0)
        return -1;
    /* Decoding stops at the first bytes that are no instruction. */
    return found ? d->walk(d->ctx, l->function->address, code.bytes, take_instruction, l, e) : 0;
}

static int look_up_lines(struct lines *l, const struct disassembler *d, struct err *e)
{
    struct session s;
    struct err cause = {0};
    int status = session_open(&s, l->c, l->function->image, &cause);
    if (status == 0)
        status = collect_instructions(l, d, &cause);
    if (status == 0)
        status = helper_look_up(&l->c->resolver->helper, l->places.at, l->places.len, take_answer,
                                l, &cause);
    if (status != 0)
        status = note_problem(&s, &cause, e);
    session_close(&s);
    return status;
}

int image_code_lines(struct image_code *c, uint64_t address, const struct disassembler *d,
                     struct err *e)
{
    int status = 0;
    for (size_t i = 0; i < c->found.len && status == 0; i++) {
        struct lines l = {.c = c, .function = &c->found.at[i]};
        if (l.function->address != address)
            continue;
        status = look_up_lines(&l, d, e);
        vec_release(&l.addresses);
        vec_release(&l.places);
    }
    return status;
}
