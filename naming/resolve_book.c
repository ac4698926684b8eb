#include "naming/resolve_book.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "base/monotonic.h"
#include "base/order.h"
#include "naming/frame_places.h"
#include "trace/store/frame_name.h"

/* One look-up: a frame of the book, or a symbol of the trace's list. */
struct asked {
    uint32_t frame;   /* frame number, or SYMBOL_BIT and the index in the symbol list */
    uint64_t address; /* in the client, as looked up */
};

#define SYMBOL_BIT (1u << 31)

/* Distance in frames between prefetching memory and using it. */
#define AHEAD ((size_t)16)

/* Images with a separate entry in the summary. */
#define IMAGES_TOLD 4096u

struct work {
    struct resolver *r;
    struct frame_book *book;
    struct reframe *reframe;
    enum frame_policy policy;
    struct resolve_summary *s;
    struct frame_places places_of; /* of all frames, then of the symbol list */
    VEC(bool) named;               /* by frame: had a name before */
    /* For the current image. */
    struct resolve_image *image;
    VEC(struct keyed) order;
    VEC(struct place) places;
    VEC(struct asked) asked;
    VEC(uint32_t) told; /* string by text number of the answers; 0: not interned yet */
    uint64_t numbering;
    struct buf text;
    uint64_t begin; /* ns */
    bool shown;     /* a progress line is on the terminal */
};

void resolve_summary_release(struct resolve_summary *s)
{
    for (size_t i = 0; i < s->images.len; i++) {
        buf_release(&s->images.at[i].path);
        buf_release(&s->images.at[i].debug_path);
        buf_release(&s->images.at[i].looked);
    }
    vec_release(&s->images);
}

/* ---- look-ups in the book */

static struct view text_of(const struct work *w, uint32_t number)
{
    return strings_get(w->book->strings, number);
}

static int add_frame(struct work *w, size_t number, struct err *e)
{
    bool named = frame_book_is_named(w->book, number);
    w->s->frames++;
    w->s->named_before += named;
    if (!vec_push(&w->named, named))
        return err_no_memory(e, "the frames of a trace");
    return frame_places_add(&w->places_of, number, e);
}

/* Adds the trace's list of symbols after all frames. */
static int add_symbols(struct work *w, struct err *e)
{
    size_t n = w->reframe ? reframe_symbol_count(w->reframe) : 0;
    for (size_t i = 0; i < n; i++) {
        const struct reframe_symbol *s = reframe_symbol(w->reframe, i);
        struct locate_frame at = {.address = s->address,
                                  .symbol = s->address,
                                  .image = text_of(w, s->image),
                                  .exact = true,
                                  .listed = true};
        if (frame_places_add_other(&w->places_of, &at, e) != 0)
            return -1;
    }
    return 0;
}

static int locate_all(struct work *w, struct err *e)
{
    for (size_t i = 0; i < w->book->callstacks->frames.len; i++) {
        if (add_frame(w, i, e) != 0)
            return -1;
    }
    if (add_symbols(w, e) != 0)
        return -1;
    return frame_places_locate(&w->places_of, e);
}

/* ---- new names */

static uint32_t intern(struct work *w, struct view text, struct err *e)
{
    return strings_intern(w->book->strings, text, e);
}

/* Interns a text of an answer; most texts repeat, so their strings are cached by number. */
static uint32_t intern_told(struct work *w, const struct place_answer *a, uint32_t number,
                            struct view text, struct err *e)
{
    if (w->numbering != a->numbering)
        w->told.len = 0;
    w->numbering = a->numbering;
    while (w->told.len <= number) {
        if (!vec_push(&w->told, 0))
            return err_no_memory(e, "names"), 0u;
    }
    uint32_t *slot = &w->told.at[number];
    if (!*slot)
        *slot = intern(w, text, e);
    return *slot;
}

/* "libfoo.so+0x1234" or "libfoo.so (base unknown)". */
static uint32_t place_name(struct work *w, bool known, uint64_t address, struct err *e)
{
    struct view path = {(const char *)w->image->path.data, w->image->path.len};
    struct view name = frame_image_name(path);
    buf_clear(&w->text);
    buf_put(&w->text, name.p, name.len);
    if (known)
        buf_printf(&w->text, "+0x%" PRIx64, address);
    else
        buf_puts(&w->text, " (base unknown)");
    struct view text = {buf_str(&w->text), w->text.len};
    return w->text.failed ? (err_no_memory(e, "a name"), 0u) : intern(w, text, e);
}

/* In place of a file: where a name without one is from. */
static uint32_t origin_text(struct work *w, enum place_source source, struct err *e)
{
    static const enum name_origin origins[PLACE_SOURCES] = {
        [SOURCE_NEIGHBOUR] = NAME_FROM_NEIGHBOUR, [SOURCE_DYNSYM] = NAME_FROM_DYNSYM,
        [SOURCE_DEBUGDATA] = NAME_FROM_DEBUGDATA, [SOURCE_SYMTAB] = NAME_FROM_SYMTAB,
        [SOURCE_PUBLIC] = NAME_FROM_PUBLIC,
    };
    buf_clear(&w->text);
    buf_printf(&w->text, "[%s]", name_origin_text(origins[source]));
    struct view text = {buf_str(&w->text), w->text.len};
    return w->text.failed ? (err_no_memory(e, "a name"), 0u) : intern(w, text, e);
}

/* The symbol address of a frame's i-th function. The outermost function keeps an existing one. */
static uint64_t symbol_of(const struct work *w, uint32_t frame, const struct place_answer *a,
                          size_t i, uint64_t bias)
{
    const struct frame *f = &w->book->callstacks->frames.at[frame];
    uint64_t old = f->n ? w->book->callstacks->inlines.at[f->first + f->n - 1].symbol : 0;
    /* Frames located by offset keep it for all functions: a later resolution needs it. */
    if (w->places_of.locate.frames.at[frame].step == LOCATED_OFFSET || (old && i + 1 == a->n))
        return old;
    return a->frames[i].start ? a->frames[i].start + bias : 0;
}

static int rename_frame(struct work *w, uint32_t frame, const struct place_answer *a,
                        uint64_t address, struct err *e)
{
    static const enum frame_knowledge knowledge[] = {
        [SOURCE_IMAGE] = FRAME_PLACE,   [SOURCE_NEIGHBOUR] = FRAME_PLACE,
        [SOURCE_DYNSYM] = FRAME_SYMBOL, [SOURCE_DEBUGDATA] = FRAME_SYMBOL,
        [SOURCE_SYMTAB] = FRAME_SYMBOL, [SOURCE_PUBLIC] = FRAME_SYMBOL,
        [SOURCE_DEBUG] = FRAME_DEBUG};
    struct rec_inline_frame inlines[PLACE_FRAMES_MAX];
    struct frame *f = &w->book->callstacks->frames.at[frame];
    bool has_file = a->n > 0 && a->frames[0].file.len > 0;
    size_t before = f->n, n = a->n ? a->n : 1;
    if (!frame_book_wants(w->book, frame, w->policy, knowledge[a->source], a->n, has_file))
        return 0;
    for (size_t i = 0; i < n; i++) {
        const struct symbol_frame *p = a->n ? &a->frames[i] : NULL;
        struct rec_inline_frame in = {.line = p ? p->line : 0};
        in.symbol =
            p ? symbol_of(w, frame, a, i, address - a->address)
              : (before ? w->book->callstacks->inlines.at[f->first + before - 1].symbol : 0);
        in.function = p && p->function.len ? intern_told(w, a, p->function_number, p->function, e)
                                           : place_name(w, true, a->address, e);
        in.file = p && p->file.len ? intern_told(w, a, p->file_number, p->file, e)
                                   : origin_text(w, a->source, e);
        if (!in.function || !in.file)
            return -1;
        inlines[i] = in;
    }
    if (a->source <= SOURCE_NEIGHBOUR && before == 1 &&
        view_equal(text_of(w, inlines[0].function),
                   text_of(w, w->book->callstacks->inlines.at[f->first].function)))
        return 0;
    uint32_t image = 0;
    if (f->image == 0 || frame_image_is_special(text_of(w, f->image))) {
        struct view path = {(const char *)w->image->path.data, w->image->path.len};
        if (!(image = intern(w, path, e)))
            return -1;
    }
    w->s->changed++;
    w->image->inlines += n > before && before > 0;
    return frame_book_rename(w->book, frame, image, inlines, n, e);
}

static int rename_symbol(struct work *w, size_t i, const struct place_answer *a, struct err *e)
{
    struct reframe_symbol *s = reframe_symbol(w->reframe, i);
    if (a->source <= SOURCE_NEIGHBOUR || a->frames[a->n - 1].function.len == 0)
        return 0;
    /* As clients do: the function's name, and the file and line where its code begins. */
    uint32_t name = intern(w, a->frames[a->n - 1].function, e);
    uint32_t file = a->frames[0].file.len ? intern(w, a->frames[0].file, e) : s->file;
    if (!name || (a->frames[0].file.len && !file))
        return -1;
    s->name = name;
    if (a->frames[0].file.len) {
        s->file = file;
        s->line = a->frames[0].line;
    }
    s->changed = true;
    w->s->symbols++;
    return 0;
}

/*
 * Prefetches frames, since answers come by address but frames lie in trace order. always_inline:
 * GCC would otherwise drop the call as having no effect.
 */
static inline __attribute__((always_inline)) void fetch_ahead(const struct work *w, size_t i)
{
    size_t far = i + 2 * AHEAD, near = i + AHEAD;
    if (far < w->asked.len && !(w->asked.at[far].frame & SYMBOL_BIT)) {
        frame_book_fetch(w->book, w->asked.at[far].frame);
        __builtin_prefetch(&w->places_of.locate.frames.at[w->asked.at[far].frame]);
    }
    if (near < w->asked.len && !(w->asked.at[near].frame & SYMBOL_BIT))
        frame_book_fetch_functions(w->book, w->asked.at[near].frame);
}

static int take_answer(void *ctx, size_t i, const struct place_answer *a, struct err *e)
{
    struct work *w = ctx;
    const struct asked *asked = &w->asked.at[i];
    fetch_ahead(w, i);
    /* The place is outside the image, so the frame was in another one. */
    if (a->source == SOURCE_NONE)
        return 0;
    if (asked->frame & SYMBOL_BIT)
        return rename_symbol(w, asked->frame & ~SYMBOL_BIT, a, e);
    return rename_frame(w, asked->frame, a, asked->address, e);
}

/* ---- images */

/* Sorts by address: neighbours share most of the data to read and most texts. */
static int collect_places(struct work *w, size_t number, struct err *e)
{
    size_t frames = w->book->callstacks->frames.len;
    size_t n;
    const uint32_t *numbers = locate_frames_of(&w->places_of.locate, number, &n);
    w->order.len = w->places.len = w->asked.len = 0;
    if (!vec_reserve(&w->order, n) || !vec_reserve(&w->places, n) || !vec_reserve(&w->asked, n))
        return err_no_memory(e, "places in an image");
    for (size_t k = 0; k < n; k++) {
        const struct located *at = &w->places_of.locate.frames.at[numbers[k]];
        if (at->step != LOCATED_NOT)
            w->order.at[w->order.len++] = (struct keyed){at->value, numbers[k]};
    }
    if (!order_by_key(w->order.at, w->order.len))
        return err_no_memory(e, "places in an image");
    for (size_t k = 0; k < w->order.len; k++) {
        size_t i = (size_t)w->order.at[k].value;
        const struct located *at = &w->places_of.locate.frames.at[i];
        const struct locate_frame *f = &w->places_of.frames.at[i];
        w->places.at[w->places.len++] = (struct place){at->kind, at->value};
        w->asked.at[w->asked.len++] =
            (struct asked){.frame = i < frames ? (uint32_t)i : (uint32_t)(i - frames) | SYMBOL_BIT,
                           .address = f->address - !f->exact};
    }
    return 0;
}

/* Whether a mapping of the table is of that file, whose build id is known then. */
static bool is_mapped(const struct module_table *t, struct view path)
{
    for (size_t i = 0; i < t->list.len; i++) {
        const struct module *m = &t->list.at[i];
        if (m->build_id.len > 0 && view_equal(view_of(m->path), path))
            return true;
    }
    return false;
}

static int ask_image(struct work *w, size_t number, struct err *e)
{
    const struct locate_image *li = &w->places_of.locate.images.at[number];
    struct resolve_image *image = w->image;
    struct image_facts facts;
    struct image_proof proof = frame_places_proof(&w->places_of, li);
    char n[FORMAT_SIZE];
    /* Such as data that a client took for return addresses. */
    image->elsewhere =
        li->build_id.len == 0 && li->frames[LOCATED_OFFSET] == 0 && !proof.trusted && !proof.file &&
        (is_mapped(&w->places_of.facts, li->path) || is_mapped(&w->places_of.file, li->path));
    if (image->elsewhere)
        return err_set(e, ERR_CHECK, "%s outside of its mappings",
                       format_counted(n, li->frames[LOCATED_NOT], "frame"));
    if (resolver_open(w->r, li->path, &li->build_id, proof, &facts, e) != 0)
        return -1;
    image->opened = true;
    image->has_debug = facts.has_debug;
    image->separate = facts.debug_separate;
    image->from_cache = facts.from_cache;
    bool elsewhere = facts.has_debug && !facts.debug_separate && !view_equal(facts.path, li->path);
    struct view debug_path = elsewhere ? facts.path : facts.debug_path;
    image->separate |= elsewhere;
    buf_put(&image->debug_path, debug_path.p, debug_path.len);
    w->s->guards = w->r->helper.guards;
    int status = frame_places_infer(&w->places_of, number, &w->r->helper, &image->bias, e);
    if (status == 0)
        status = collect_places(w, number, e);
    if (status == 0)
        status = helper_look_up(&w->r->helper, w->places.at, w->places.len, take_answer, w, e);
    helper_close_image(&w->r->helper);
    return status;
}

/*
 * Names a frame after its place, unless it has a better name. A frame that the client marked as
 * unresolved keeps its symbol address, so that update -R can restore it.
 */
static int name_by_place(struct work *w, uint32_t frame, struct err *e)
{
    const struct located *at = &w->places_of.locate.frames.at[frame];
    const struct frame *f = &w->book->callstacks->frames.at[frame];
    struct view path = {(const char *)w->image->path.data, w->image->path.len};
    struct rec_inline_frame old = {0};
    if (frame_book_is_named(w->book, frame))
        return 0;
    if (f->n > 0)
        old = w->book->callstacks->inlines.at[f->first + f->n - 1];
    /* The look-up may have set the address as the image counts. */
    if (at->step != LOCATED_NOT && frame_name_is_at(text_of(w, old.function)))
        return 0;
    struct rec_inline_frame in = {.symbol = old.symbol};
    in.function = place_name(w, at->step != LOCATED_NOT, at->value, e);
    in.file = in.function ? intern(w, view_of("[unknown]"), e) : 0;
    uint32_t image = 0;
    if (!in.file || (frame_image_is_special(text_of(w, f->image)) && !(image = intern(w, path, e))))
        return -1;
    w->s->changed += !view_equal(text_of(w, in.function), text_of(w, old.function)) || f->n != 1;
    return frame_book_rename(w->book, frame, image, &in, 1, e);
}

static int name_rest(struct work *w, size_t number, struct err *e)
{
    size_t n;
    int status = 0;
    const uint32_t *frames = locate_frames_of(&w->places_of.locate, number, &n);
    for (size_t i = 0; i < n && status == 0; i++) {
        if (frames[i] < w->book->callstacks->frames.len)
            status = name_by_place(w, frames[i], e);
    }
    return status;
}

/* The summary's entry of an image; images beyond IMAGES_TOLD share the last one. */
static struct resolve_image *entry_of(struct work *w, size_t number, struct err *e)
{
    static const struct resolve_image fresh;
    if (w->s->images.len <= IMAGES_TOLD && !vec_push(&w->s->images, fresh)) {
        err_no_memory(e, "images of a trace");
        return NULL;
    }
    struct resolve_image *image = &w->s->images.at[number < IMAGES_TOLD ? number : IMAGES_TOLD];
    buf_clear(&image->path);
    buf_clear(&image->debug_path);
    buf_clear(&image->looked);
    image->bias = (struct helper_bias){0};
    image->problem[0] = 0;
    return image;
}

static int resolve_image(struct work *w, size_t number, struct err *e)
{
    const struct locate_image *li = &w->places_of.locate.images.at[number];
    struct err cause = {0};
    if (!(w->image = entry_of(w, number, e)))
        return -1;
    w->image->build_id = li->build_id;
    buf_put(&w->image->path, li->path.p, li->path.len);
    if (w->image->path.failed)
        return err_no_memory(e, "images of a trace");
    if (ask_image(w, number, &cause) != 0) {
        if (cause.code == ERR_MEMORY) {
            *e = cause;
            return -1;
        }
        snprintf(w->image->problem, sizeof w->image->problem, "%.250s", cause.text);
    }
    if (!w->image->has_debug && !w->image->elsewhere && w->r->looked.len)
        buf_put(&w->image->looked, w->r->looked.data, w->r->looked.len - strlen(", "));
    if (name_rest(w, number, e) != 0)
        return -1;
    for (size_t i = 0; i < LOCATE_STEPS; i++)
        w->image->steps[i] += w->places_of.locate.images.at[number].frames[i];
    if (number >= IMAGES_TOLD) {
        buf_clear(&w->image->path);
        buf_puts(&w->image->path, "(other images)");
    }
    return 0;
}

/* ---- the whole book */

static int compare_images(const void *a, const void *b)
{
    const struct resolve_image *x = a, *y = b;
    if (x->frames != y->frames)
        return x->frames > y->frames ? -1 : 1;
    size_t n = x->path.len < y->path.len ? x->path.len : y->path.len;
    int order = n ? memcmp(x->path.data, y->path.data, n) : 0;
    return order ? order : (x->path.len > y->path.len) - (x->path.len < y->path.len);
}

static enum name_origin origin_of(const struct work *w, size_t frame)
{
    const struct frame *f = &w->book->callstacks->frames.at[frame];
    return f->n ? frame_file_origin(text_of(w, w->book->callstacks->inlines.at[f->first].file))
                : NAME_FROM_ELSEWHERE;
}

static void count(struct work *w)
{
    struct resolve_summary *s = w->s;
    for (size_t i = 0; i < w->book->callstacks->frames.len; i++) {
        bool named = frame_book_is_named(w->book, i);
        uint32_t image = w->places_of.locate.frames.at[i].image;
        s->named += named;
        if (image != LOCATE_NONE) {
            image = image < IMAGES_TOLD ? image : IMAGES_TOLD;
            s->images.at[image].frames++;
            s->images.at[image].named_before += w->named.at[i];
            s->images.at[image].named += named;
            s->images.at[image].from[origin_of(w, i)]++;
        } else if (!named) {
            *(w->places_of.frames.at[i].address >> 63 ? &s->kernel : &s->nowhere) += 1;
        }
    }
    if (s->images.len > 1)
        qsort(s->images.at, s->images.len, sizeof *s->images.at, compare_images);
}

/* Shows the current image on a terminal, after one second. */
static void show_progress(struct work *w, size_t number)
{
    const struct locate_image *li = &w->places_of.locate.images.at[number];
    struct buf b = {0};
    if (!w->r->terminal || monotonic_ns() - w->begin < 1000000000u)
        return;
    format_terminal(&b, frame_image_name(li->path));
    fprintf(stderr, "\r\033[Knames: image %zu of %zu, %.60s", number + 1,
            w->places_of.locate.images.len, buf_str(&b));
    buf_release(&b);
    w->shown = true;
}

int resolve_book(struct resolver *r, struct frame_book *book, struct reframe *reframe,
                 enum frame_policy policy, struct resolve_summary *s, struct err *e)
{
    struct work w = {.r = r,
                     .book = book,
                     .reframe = reframe,
                     .policy = policy,
                     .s = s,
                     .begin = monotonic_ns()};
    *s = (struct resolve_summary){0};
    int status = frame_book_note_instructions(book, e);
    if (status == 0)
        status = frame_places_init(&w.places_of, r->options, book, e);
    s->bad_modules = w.places_of.bad_modules;
    if (status == 0)
        status = locate_all(&w, e);
    for (size_t i = 0; i < w.places_of.locate.images.len && status == 0; i++) {
        show_progress(&w, i);
        status = resolve_image(&w, i, e);
    }
    if (w.shown)
        fputs("\r\033[K", stderr);
    if (status == 0)
        count(&w);
    frame_places_release(&w.places_of);
    vec_release(&w.named);
    vec_release(&w.order);
    vec_release(&w.places);
    vec_release(&w.asked);
    vec_release(&w.told);
    buf_release(&w.text);
    return status;
}
