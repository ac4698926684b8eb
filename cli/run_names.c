#include "cli/run_names.h"

#include <string.h>

#include "base/format.h"
#include "cli/frame_places.h"
#include "cli/options.h"
#include "cli/resolve_book.h"
#include "protocol/answers.h"
#include "protocol/event.h"

/* A book of the addresses alone: the trace's own is for the end. */
struct names {
    struct callstacks callstacks;
    struct strings strings;
    struct frame_book book;
    struct frame_places places;
    bool placed;
};

static void names_release(struct names *n)
{
    if (n->placed)
        frame_places_release(&n->places);
    frame_book_release(&n->book);
    callstacks_release(&n->callstacks);
    strings_release(&n->strings);
}

static int take_modules(struct names *n, const struct trace *t, struct err *e)
{
    struct view text;
    for (unsigned i = 0; (text = trace_fact(t, "module", i)).p; i++) {
        if (!vec_push(&n->book.modules, text))
            return err_no_memory(e, "the module table");
    }
    return 0;
}

/* `use`: FRAME_RETURN, or 0 for addresses that are meant as they are. */
static int take_addresses(struct names *n, const uint64_t *addresses, size_t count, uint8_t use,
                          struct err *e)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t number = callstacks_frame(&n->callstacks, addresses[i] & FRAME_ADDRESS_MASK);
        if (number == UINT32_MAX)
            return err_no_memory(e, "call stack frames");
        if (number >= n->book.uses.len && !vec_push(&n->book.uses, use))
            return err_no_memory(e, "call stack frames");
    }
    return 0;
}

/* Names from the helper; what goes wrong with that costs names only. */
static int look_up(struct names *n, struct run_traces *r, struct err *e)
{
    struct resolve_summary names;
    if (!r->resolver_runs)
        return 0;
    int status = resolve_book(&r->resolver, &n->book, NULL, FRAME_BETTER, &names, e);
    resolve_summary_release(&names);
    return status;
}

/* Where what has no name lies. */
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

static int names_init(struct names *n, struct run_traces *r, const struct trace *t,
                      const uint64_t *addresses, size_t count, uint8_t use, struct err *e)
{
    *n = (struct names){0};
    strings_init(&n->strings);
    if (callstacks_init(&n->callstacks, e) != 0)
        return -1;
    n->book.callstacks = &n->callstacks;
    n->book.strings = &n->strings;
    if (take_modules(n, t, e) != 0 || take_addresses(n, addresses, count, use, e) != 0 ||
        look_up(n, r, e) != 0)
        return -1;
    return place(n, &r->options->resolving, e);
}

static int answer_one(const struct names *n, uint64_t address, struct encoder *replies,
                      struct err *e)
{
    struct answer_function functions[PLACE_FRAMES_MAX];
    const struct frame *f = callstacks_find_frame(&n->callstacks, address & FRAME_ADDRESS_MASK);
    size_t number = (size_t)(f - n->callstacks.frames.at);
    const struct located *at = &n->places.locate.frames.at[number];
    struct view image = strings_get(&n->strings, f->image);
    size_t count = f->n < PLACE_FRAMES_MAX ? f->n : PLACE_FRAMES_MAX;
    for (size_t i = 0; i < count; i++) {
        const struct frame_inline *in = &n->callstacks.inlines.at[f->first + i];
        functions[i] = (struct answer_function){.name = strings_get(&n->strings, in->function),
                                                .file = strings_get(&n->strings, in->file),
                                                .line = in->line,
                                                .symbol = in->symbol};
    }
    if (count == 0) {
        bool known = at->image != LOCATE_NONE && at->step != LOCATED_NOT;
        /* What a client says that leaves it to others: the offset in place of the symbol. The
         * byte before is the return address's own business. */
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
    int status = names_init(&names, r, t, addresses, n, FRAME_RETURN, e);
    for (size_t i = 0; i < n && status == 0; i++)
        status = answer_one(&names, addresses[i], replies, e);
    names_release(&names);
    return status;
}

int run_names_symbols(struct run_traces *r, struct trace *t, const uint64_t *addresses, size_t n,
                      struct encoder *replies, struct err *e)
{
    struct names names;
    int status = names_init(&names, r, t, addresses, n, 0, e);
    for (size_t i = 0; i < n && status == 0; i++) {
        const struct frame *f =
            callstacks_find_frame(&names.callstacks, addresses[i] & FRAME_ADDRESS_MASK);
        /* Where the code begins: in the innermost of functions that begin there together. */
        const struct frame_inline *in = f->n ? &names.callstacks.inlines.at[f->first] : NULL;
        struct view file = in ? strings_get(&names.strings, in->file) : (struct view){0};
        status = answer_symbol(replies, addresses[i], file.len ? file : view_of("[unknown]"),
                               in ? in->line : 0, e);
    }
    names_release(&names);
    return status;
}
