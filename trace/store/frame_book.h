#pragma once

/*
 * The frames of a trace with their names, to be given better names: of a store, or of a file
 * passing through a filter (trace/filter/reframe.h). The book decides whether a new answer replaces
 * the client's.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/vec.h"
#include "base/view.h"
#include "trace/store/callstacks.h"
#include "trace/store/frame_name.h"
#include "trace/store/strings.h"

struct trace;

/* How an address is used. For a return address only, the call is before it. */
enum frame_use {
    FRAME_RETURN = 1,      /* in a call stack: a return address */
    FRAME_RUNNING = 2,     /* running when a sample was taken */
    FRAME_INSTRUCTION = 4, /* in no call stack: machine code whose lines were queried */
};

/* The kind of a frame's outermost name, valid while its functions are those from `first`. */
struct frame_kind {
    uint32_t first;
    bool known;
    uint8_t kind; /* enum frame_name_kind */
};

struct frame_book {
    struct callstacks *callstacks; /* only its frames and inlines are used */
    struct strings *strings;
    VEC(uint8_t) uses;            /* enum frame_use bits, by frame number; may be shorter */
    VEC(struct view) modules;     /* values of the facts `module` */
    VEC(struct frame_kind) kinds; /* by frame number; may be shorter */
};

void frame_book_release(struct frame_book *b);

/* Adds the facts `module` of a trace to `modules`. The texts are the trace's. */
int frame_book_take_modules(struct frame_book *b, const struct trace *t, struct err *e);

/*
 * Initialises the book of a store, with its samples if `samples`; these must not be finished yet.
 */
int frame_book_of_trace(struct frame_book *b, struct trace *t, struct err *e);

/* Records how the frames of a call stack are used, innermost first. */
int frame_book_use(struct frame_book *b, const uint64_t *frame_ids, size_t n, bool sample,
                   struct err *e);

/*
 * Call it when all call stacks are recorded and all frames known: frames in no call stack are
 * instructions.
 */
int frame_book_note_instructions(struct frame_book *b, struct err *e);

/* Whether to look up a frame's exact address instead of that of the call before it. */
static inline bool frame_book_is_exact(const struct frame_book *b, size_t frame)
{
    uint8_t uses = frame < b->uses.len ? b->uses.at[frame] : 0;
    return uses && !(uses & FRAME_RETURN);
}

/* ---- renaming */

/* The source of a new name, in rising order of trust. */
enum frame_knowledge {
    FRAME_PLACE,  /* only the location in the image */
    FRAME_SYMBOL, /* a symbol table */
    FRAME_DEBUG,  /* debug information */
};

enum frame_policy {
    FRAME_BETTER,  /* replace a client's name only if the new answer has more */
    FRAME_UNKNOWN, /* only frames without a name */
    FRAME_ALL,     /* any frame */
};

/*
 * Whether a new answer of `n` functions, the innermost with or without a file, replaces the frame's
 * current ones.
 */
bool frame_book_wants(struct frame_book *b, size_t frame, enum frame_policy policy,
                      enum frame_knowledge knowledge, size_t n, bool has_file);

/* Gives a frame other functions, innermost first. `image` 0: keep the image. */
int frame_book_rename(struct frame_book *b, size_t frame, uint32_t image,
                      const struct rec_inline_frame *inlines, size_t n, struct err *e);

/* Whether the outermost function of a frame has a name. */
bool frame_book_is_named(struct frame_book *b, size_t frame);

/*
 * Prefetches a frame and, some frames later, its functions. Code that visits frames in another
 * order than the trace's would otherwise wait for each.
 */
static inline __attribute__((always_inline)) void frame_book_fetch(const struct frame_book *b,
                                                                   size_t frame)
{
    __builtin_prefetch(&b->callstacks->frames.at[frame].n);
    if (frame < b->kinds.len)
        __builtin_prefetch(&b->kinds.at[frame]);
}

static inline __attribute__((always_inline)) void
frame_book_fetch_functions(const struct frame_book *b, size_t frame)
{
    const struct frame *f = &b->callstacks->frames.at[frame];
    if (f->n > 0)
        __builtin_prefetch(&b->callstacks->inlines.at[f->first + f->n - 1]);
}
