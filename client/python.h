#ifndef TIDEMARK_CLIENT_PYTHON_H
#define TIDEMARK_CLIENT_PYTHON_H

/*
 * The frames of Python functions in the call stack of the calling thread, read from CPython's own
 * structures. See docs/decisions/python-frames.md for why these reads are safe.
 *
 * A frame is known by a number, its source: one function, file and line, which a REC_SOURCE record
 * describes before the first call stack with it. The thread that reads holds the GIL, which also
 * guards the tables of this module.
 */

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/state.h"

/* Offsets in structures of one minor version of CPython. */
struct python_layout {
    uint16_t version;                     /* 0x030b: 3.11 */
    uint16_t cframe;                      /* of a thread state; 0: it has `frame` itself */
    uint16_t cframe_previous;             /* of a cframe */
    uint16_t frame;                       /* of a cframe or thread state: the running frame */
    uint16_t interpreter;                 /* of a thread state */
    uint16_t code, previous, instruction; /* of a frame */
    uint16_t owner;                       /* of a frame, a byte: 1 for generators */
    uint16_t last;                        /* of a frame, a byte that is … */
    uint8_t last_value;                   /* … this in the outermost frame of an activation. */
    bool last_is_code; /* That one runs code, too; else it is on the C stack and runs none. */
    uint16_t filename, qualname, linetable, first_line, bytecode; /* of a code object */
    uint16_t ascii, compact; /* size of a string's header, by its kind */
};

#define PYTHON_CODES_BITS 14u
#define PYTHON_TEXTS_BITS 16u
#define PYTHON_GENERATIONS_BITS 12u

/* The source of an instruction. */
struct python_known {
    uint64_t code, instruction; /* addresses; code 0: empty */
    uint32_t generation, source;
};

struct python_text {
    uint64_t hash; /* of function, file and line */
    uint32_t source;
};

struct python {
    void *(*current)(void); /* the thread state that runs, */
    void *(*own)(void);     /* and the one of the calling thread: equal if it holds the GIL */
    void *(*main)(void);    /* the main interpreter */
    const char *(*allocator)(void);
    struct python_layout layout;
    uint64_t code_type, string_type, bytes_type;
    uint64_t low, high; /* of the interpreter's own image; 0: it is part of a program */
    void (*code_freed)(void *);
    uint32_t sources;
    char path[1024]; /* of the image; empty: the program */
    _Atomic uint32_t codes_freed;
    /* The same of those at an address, by a hash of it. */
    _Atomic uint32_t generations[1u << PYTHON_GENERATIONS_BITS];
    struct python_known known[1u << PYTHON_CODES_BITS];
    struct python_text texts[1u << PYTHON_TEXTS_BITS];
};

/* A module was loaded: takes note if CPython is in it. */
void python_look(const struct dl_phdr_info *info);

/*
 * Frames may be read if CPython was found and stays loaded: it is among the modules of the
 * program's start, or is kept loaded from now on. Not called in a hook of an allocation.
 */
void python_settle(bool start);

/* A new recording begins: no source is described in it. */
void python_begin(void);

/* Whether the calling thread runs Python code; if so, its thread state. */
static inline void *python_thread(void)
{
    struct python *p = atomic_load_explicit(&state.python, memory_order_relaxed);
    if (client_likely(!p))
        return NULL;
    void *thread = p->current();
    return thread && thread == p->own() ? thread : NULL;
}

/*
 * Reads the activations on the part of the stack between `low` and `high`, and up to state.depth
 * frames, innermost first, into the items of the walk. `defines`: new sources may be described, as
 * when memory was allocated. Returns the number of items; 0: there are none, or they could not be
 * read, which is counted.
 */
uint32_t python_read(struct thread *t, void *thread, uint64_t low, uint64_t high, bool defines);

/* The source of an instruction of a code object; false: it cannot be described. */
bool python_describe(struct thread *t, struct python *p, uint64_t code, uint64_t instruction,
                     bool generator, uint32_t *source);

#endif
