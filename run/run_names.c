#include "run/run_names.h"

#include <stdlib.h>
#include <string.h>

#include "naming/frame_places.h"
#include "naming/resolve_book.h"
#include "protocol/answers.h"
#include "protocol/event.h"
#include "trace/store/frame_name.h"

/*
 * The look-up uses a separate book with these addresses only; the trace's book is resolved at the
 * end.
 */
struct names {
    struct callstacks callstacks;
    struct strings strings;
    struct frame_book book;
    struct frame_places places;
    bool placed;
    struct extent *extents; /* by frame number; NULL: not looked up */
    struct buf code;        /* code of the queried functions, concatenated */
};

/* The bounds of a frame's function in its image. */
struct extent {
    uint64_t start; /* in the program; 0: unknown */
    uint64_t size;
    size_t at, len; /* its bytes in `code`, as far as they are stored */
};

static void names_release(struct names *n)
{
    if (n->placed)
        frame_places_release(&n->places);
    free(n->extents);
    buf_release(&n->code);
    frame_book_release(&n->book);
    callstacks_release(&n->callstacks);
    strings_release(&n->strings);
}

/*
 * Adds addresses. Those in the call stacks `returns` are return addresses. All others, and all if
 * it is NULL, are exact.
 */
static int take_addresses(struct names *n, const uint64_t *addresses, size_t count,
                          const struct callstacks *returns, struct err *e)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t id = addresses[i] & FRAME_ADDRESS_MASK;
        uint8_t use = returns && callstacks_find_frame(returns, id) ? FRAME_RETURN : 0;
        uint32_t number = callstacks_frame(&n->callstacks, id);
        if (number == UINT32_MAX)
            return err_no_memory(e, "call stack frames");
        if (number >= n->book.uses.len && !vec_push(&n->book.uses, use))
            return err_no_memory(e, "call stack frames");
    }
    return 0;
}

/* Resolves names with the helper; its failures cost only names. */
static int look_up(struct names *n, struct run_traces *r, struct err *e)
{
    struct resolve_summary names;
    if (!r->resolver_runs)
        return 0;
    int status = resolve_book(&r->resolver, &n->book, NULL, FRAME_BETTER, &names, e);
    resolve_summary_release(&names);
    return status;
}

/* Finds image and offset of unnamed frames. */
static int place(struct names *n, const struct resolve_options *options, struct err *e)
{
    n->placed = true;
    if (frame_book_note_instructions(&n->book, e) != 0 ||
        frame_places_init(&n->places, options, &n->book, e) != 0)
        return -1;
    for (size_t i = 0; i < n->callstacks.frames.len; i++) {
        if (frame_places_add(&n->places, i, e) != 0)
            return -1;
    }
    return frame_places_locate(&n->places, e);
}

static int names_init(struct names *n, const struct trace *t, const uint64_t *addresses,
                      size_t count, const struct callstacks *returns, struct err *e)
{
    *n = (struct names){0};
    strings_init(&n->strings);
    if (callstacks_init(&n->callstacks, e) != 0)
        return -1;
    n->book.callstacks = &n->callstacks;
    n->book.strings = &n->strings;
    return frame_book_take_modules(&n->book, t, e) == 0 &&
                   take_addresses(n, addresses, count, returns, e) == 0
               ? 0
               : -1;
}

/* ---- machine code */

/* Stores the bounds of the function, and its bytes if it begins at the frame's address. */
static int take_code(struct names *n, size_t frame, const struct place_code *code, bool keep,
                     struct err *e)
{
    const struct locate_frame *f = &n->places.frames.at[frame];
    uint64_t into = code->address - code->start, address = f->address - !f->exact;
    struct extent *x = &n->extents[frame];
    if (into > address)
        return 0;
    *x = (struct extent){.start = address - into, .size = code->size};
    if (!keep || into != 0)
        return 0;
    x->at = n->code.len;
    x->len = code->bytes.len;
    buf_put(&n->code, code->bytes.p, code->bytes.len);
    return n->code.failed ? err_no_memory(e, "machine code") : 0;
}

static int read_image(struct names *n, struct run_traces *r, size_t image, bool keep, struct err *e)
{
    struct helper_bias bias = {0};
    struct helper *helper = &r->resolver.helper;
    size_t count;
    const uint32_t *frames = locate_frames_of(&n->places.locate, image, &count);
    int status = frame_places_infer(&n->places, image, helper, &bias, e);
    for (size_t i = 0; i < count && status == 0; i++) {
        const struct located *at = &n->places.locate.frames.at[frames[i]];
        const struct place place = {at->kind, at->value};
        struct place_code code;
        bool found = false;
        bool wanted = keep || !n->places.frames.at[frames[i]].exact;
        if (wanted && at->step != LOCATED_NOT)
            status = helper_read_code(helper, &place, &code, &found, e);
        if (status == 0 && found)
            status = take_code(n, frames[i], &code, keep, e);
    }
    return status;
}

/*
 * Finds the bounds of the functions in call stacks, as far as the images have them. No code is sent
 * of other functions, which servers find as call targets in this code: they would query whole
 * libraries, call by call. `keep`: store the bytes of all.
 */
static int read_code(struct names *n, struct run_traces *r, bool keep, struct err *e)
{
    if (!run_names_has_code(r))
        return 0;
    n->extents = calloc(n->places.frames.len + 1, sizeof *n->extents);
    if (!n->extents)
        return err_no_memory(e, "machine code");
    for (size_t i = 0; i < n->places.locate.images.len; i++) {
        const struct locate_image *li = &n->places.locate.images.at[i];
        struct image_facts facts;
        struct err cause = {0};
        size_t count;
        (void)locate_frames_of(&n->places.locate, i, &count);
        if (count == 0)
            continue;
        if (resolver_open(&r->resolver, li->path, &li->build_id, frame_places_proof(&n->places, li),
                          &facts, &cause) == 0) {
            (void)read_image(n, r, i, keep, &cause);
            helper_close_image(&r->resolver.helper);
        }
        if (cause.code == ERR_MEMORY) {
            *e = cause;
            return -1;
        }
    }
    return 0;
}

bool run_names_has_code(const struct run_traces *r)
{
    return r->resolver_runs && !r->options->no_code;
}

/* ---- answers */

static size_t frame_of(const struct names *n, uint64_t address)
{
    return (size_t)(callstacks_find_frame(&n->callstacks, address & FRAME_ADDRESS_MASK) -
                    n->callstacks.frames.at);
}

/*
 * Programs have no page at address 0, in any of the 4096 tagged ranges of recording_images.h: its
 * upper half is for frames with a description. Those beyond have no name.
 */
#define DESCRIBED_LOW UINT64_C(2048)
#define DESCRIBED_MOST (4096 * DESCRIBED_LOW)
#define NAMELESS (DESCRIBED_LOW - 1)

uint64_t run_names_address(uint64_t frame)
{
    uint64_t n = frame & ~FRAME_ID_CUSTOM;
    if (!(frame & FRAME_ID_CUSTOM))
        return frame;
    return n < DESCRIBED_MOST ? n / DESCRIBED_LOW << 48 | (DESCRIBED_LOW + n % DESCRIBED_LOW)
                              : NAMELESS;
}

/* The frame that the recording describes; 0: it is the program's. */
static uint64_t described_frame(uint64_t address)
{
    uint64_t low = address & ((UINT64_C(1) << 48) - 1);
    if (low >= DESCRIBED_LOW && low < 2 * DESCRIBED_LOW)
        return FRAME_ID_CUSTOM | ((address >> 48) * DESCRIBED_LOW + (low - DESCRIBED_LOW));
    return address == FRAME_CUT || address == NAMELESS ? address : 0;
}

static int answer_described(const struct trace *t, uint64_t address, uint64_t frame,
                            struct encoder *replies, struct err *e)
{
    const struct frame *f = callstacks_find_frame(&t->callstacks, frame);
    struct view unknown = view_of("[unknown]");
    struct answer_function one = {.name = unknown, .file = unknown};
    if (f && f->n) {
        const struct rec_inline_frame *in = &t->callstacks.inlines.at[f->first];
        one.name = strings_get(&t->strings, in->function);
        one.file = strings_get(&t->strings, in->file);
        one.line = in->line;
    }
    return answer_frame(replies, address, unknown, &one, 1, e);
}

static int answer_one(const struct names *n, uint64_t address, struct encoder *replies,
                      struct err *e)
{
    struct answer_function functions[PLACE_FRAMES_MAX];
    size_t number = frame_of(n, address);
    const struct frame *f = &n->callstacks.frames.at[number];
    const struct extent *x = n->extents ? &n->extents[number] : NULL;
    const struct located *at = &n->places.locate.frames.at[number];
    struct view image = strings_get(&n->strings, f->image);
    size_t count = f->n < PLACE_FRAMES_MAX ? f->n : PLACE_FRAMES_MAX;
    for (size_t i = 0; i < count; i++) {
        const struct rec_inline_frame *in = &n->callstacks.inlines.at[f->first + i];
        functions[i] = (struct answer_function){.name = strings_get(&n->strings, in->function),
                                                .file = strings_get(&n->strings, in->file),
                                                .line = in->line,
                                                .symbol = in->symbol};
        if (x && x->start && x->start == in->symbol && x->size <= UINT32_MAX)
            functions[i].symbol_len = (uint32_t)x->size;
    }
    if (count == 0) {
        bool known = at->image != LOCATE_NONE && at->step != LOCATED_NOT;
        /*
         * As clients do that leave resolution to others: the offset replaces the symbol. The server
         * itself subtracts one from the return address.
         */
        functions[0] = (struct answer_function){
            .name = view_of(known ? "[unresolved]" : "[unknown]"),
            .file = view_of("[unknown]"),
            .symbol = known ? at->value + (frame_book_is_exact(&n->book, number) ? 0 : 1) : 0};
        count = 1;
        if (known)
            image = n->places.locate.images.at[at->image].path;
    }
    if (image.len == 0)
        image = view_of("[unknown]");
    return answer_frame(replies, address, image, functions, count, e);
}

int run_names_frames(struct run_traces *r, struct trace *t, const uint64_t *addresses, size_t n,
                     struct encoder *replies, struct err *e)
{
    struct names names;
    int status = names_init(&names, t, addresses, n, &t->callstacks, e);
    if (status == 0)
        status = look_up(&names, r, e);
    if (status == 0)
        status = place(&names, &r->options->resolving, e);
    if (status == 0)
        status = read_code(&names, r, false, e);
    for (size_t i = 0; i < n && status == 0; i++) {
        uint64_t frame = described_frame(addresses[i]);
        status = frame ? answer_described(t, addresses[i], frame, replies, e)
                       : answer_one(&names, addresses[i], replies, e);
    }
    names_release(&names);
    return status;
}

int run_names_symbols(struct run_traces *r, struct trace *t, const uint64_t *addresses, size_t n,
                      struct encoder *replies, struct err *e)
{
    struct names names;
    int status = names_init(&names, t, addresses, n, NULL, e);
    if (status == 0)
        status = look_up(&names, r, e);
    for (size_t i = 0; i < n && status == 0; i++) {
        const struct frame *f =
            callstacks_find_frame(&names.callstacks, addresses[i] & FRAME_ADDRESS_MASK);
        /*
         * The location of the first instruction: that of the innermost function that begins there.
         */
        const struct rec_inline_frame *in = f->n ? &names.callstacks.inlines.at[f->first] : NULL;
        struct view file = in ? strings_get(&names.strings, in->file) : (struct view){0};
        status = answer_symbol(replies, addresses[i], file.len ? file : view_of("[unknown]"),
                               in ? in->line : 0, e);
    }
    names_release(&names);
    return status;
}

int run_names_code(struct run_traces *r, struct trace *t, const uint64_t *addresses, size_t n,
                   struct encoder *replies, struct err *e)
{
    struct names names;
    int status = names_init(&names, t, addresses, n, NULL, e);
    if (status == 0)
        status = place(&names, &r->options->resolving, e);
    if (status == 0)
        status = read_code(&names, r, true, e);
    for (size_t i = 0; i < n && status == 0; i++) {
        const struct extent *x =
            names.extents ? &names.extents[frame_of(&names, addresses[i])] : NULL;
        if (x && x->len && x->len <= RUN_NAMES_CODE_MAX)
            status = answer_code(replies, addresses[i],
                                 (struct view){(const char *)names.code.data + x->at, x->len}, e);
        else
            status = answer_nothing(replies, QUERY_SYMBOL_CODE, addresses[i], e);
    }
    names_release(&names);
    return status;
}
