#ifndef TIDEMARK_TRACE_STORE_FRAME_BOOK_H
#define TIDEMARK_TRACE_STORE_FRAME_BOOK_H

/*
 * The frames of a trace, with what they are called, to be called better: of a store, or of a file
 * on its way through a filter (trace/filter/reframe.h). What a new answer is worth beside what the
 * client said is decided here.
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

/* How an address occurs. Only where a call returns to it, what is meant lies before it. */
enum frame_use {
    FRAME_RETURN = 1,      /* in a call stack, a call returns there */
    FRAME_RUNNING = 2,     /* it was running when a sample was taken */
    FRAME_INSTRUCTION = 4, /* in no call stack: of machine code whose lines were asked for */
};

/* What a frame's outermost function is called, as long as its functions are those from `first`. */
struct frame_kind {
    uint32_t first;
    bool known;
    uint8_t kind; /* enum frame_name_kind */
};

struct frame_book {
    struct callstacks *callstacks; /* of its frames and inlines only */
    struct strings *strings;
    VEC(uint8_t) uses;            /* enum frame_use bits, by frame number; may be shorter */
    VEC(struct view) modules;     /* values of the facts `module` */
    VEC(struct frame_kind) kinds; /* by frame number; may be shorter */
};

void frame_book_release(struct frame_book *b);

/* The book of a store; with its samples, which must not be finished yet, if `samples`. */
int frame_book_of_trace(struct frame_book *b, struct trace *t, struct err *e);

/* Notes how the frames of a call stack are used, innermost first. */
int frame_book_use(struct frame_book *b, const uint64_t *frame_ids, size_t n, bool sample,
                   struct err *e);

/* Once all call stacks are noted, and all frames known: those in none of them are instructions. */
int frame_book_note_instructions(struct frame_book *b, struct err *e);

/* Whether a frame's address is to be looked up as it is, not as that of a call's return. */
static inline bool frame_book_is_exact(const struct frame_book *b, size_t frame)
{
    uint8_t uses = frame < b->uses.len ? b->uses.at[frame] : 0;
    return uses && !(uses & FRAME_RETURN);
}

/* ---- renaming */

/* Who knew a new name; in rising order of trust. */
enum frame_knowledge {
    FRAME_PLACE,  /* only the place in the image */
    FRAME_SYMBOL, /* a symbol table */
    FRAME_DEBUG,  /* debug information */
};

enum frame_policy {
    FRAME_BETTER,  /* a name of the client stays unless the new answer has more */
    FRAME_UNKNOWN, /* only frames without a name */
    FRAME_ALL,     /* whatever was said */
};

/*
 * Whether a new answer of `n` functions, the innermost with a file or without, replaces what the
 * frame is called now.
 */
bool frame_book_wants(struct frame_book *b, size_t frame, enum frame_policy policy,
                      enum frame_knowledge knowledge, size_t n, bool has_file);

/* Gives a frame other functions, innermost first. `image` 0: it keeps its own. */
int frame_book_rename(struct frame_book *b, size_t frame, uint32_t image,
                      const struct frame_inline *inlines, size_t n, struct err *e);

/* Whether the outermost function of a frame has a name. */
bool frame_book_is_named(struct frame_book *b, size_t frame);

/*
 * Has a frame come from memory before it is asked about, then, some frames later, its functions:
 * who takes frames in another order than the trace's would wait for each.
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

#endif
