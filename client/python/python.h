#pragma once

/*
 * The frames of Python functions in the call stack of the calling thread, read from CPython's own
 * structures. See docs/decisions/python-frames.md for why these reads are safe.
 *
 * A frame is known by a number, its source: one function, file and line, which a REC_SOURCE record
 * describes before the first call stack with it. Any number of threads read at the same time.
 */

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/state.h"

/* How the activations of the evaluator are found on the C stack. */
enum python_chain {
    PYTHON_ENTRIES, /* the last frame of each is on the C stack and runs no code */
    PYTHON_CFRAMES, /* a cframe on the C stack has the innermost frame of each */
    PYTHON_PAIRS,   /* each frame is an activation, and each activation has a cframe there */
    PYTHON_NATIVES, /* each frame is an activation, a native frame of the evaluator */
};

/* Offsets in structures of one minor version of CPython. */
struct python_layout {
    uint16_t version;                     /* 0x030b: 3.11 */
    uint8_t chain;                        /* enum python_chain */
    uint16_t cframe;                      /* of a thread state; 0: it has none */
    uint16_t cframe_previous;             /* of a cframe */
    uint16_t frame;                       /* the running frame: of a cframe if it has that, … */
    uint16_t interpreter;                 /* … else, like this, of a thread state */
    uint16_t code, previous, instruction; /* of a frame */
    uint8_t code_tags;                    /* bits of a frame's `code` that are not the address's */
    uint16_t owner;                       /* of a frame, a byte: 1 for generators */
    uint16_t last;                        /* of a frame, a byte that is … */
    uint8_t last_value;                   /* … this in the outermost frame of an activation */
    uint16_t filename, qualname, linetable, first_line; /* of a code object */
    uint16_t bytecode;                                  /* of a code object; … */
    uint16_t code_bytes;     /* … 0: `instruction` is a number, and this a bytes object */
    uint8_t number_bytes;    /* of code, that it counts */
    uint16_t first;          /* of a code object: its first traceable instruction; 0: none */
    uint16_t ascii, compact; /* size of a string's header, by its kind */
};

/*
 * The layout of a version (0x030b: 3.11). `runtime`: the interpreter's _PyRuntime, which has at
 * least 71 words in 3.13, and 81 since 3.14; NULL: unknown. False: its frames cannot be read.
 */
bool python_layout_find(struct python_layout *l, uint32_t version, const uint64_t *runtime);

#define PYTHON_CODES_BITS 14u
#define PYTHON_TEXTS_BITS 16u
#define PYTHON_GENERATIONS_BITS 12u

/*
 * The source of an instruction (its address, and that of its code object), or of a function, file
 * and line (a hash of them, and 0). `turn` is odd while a thread writes the cell, see
 * python_cell_find.
 */
struct python_cell {
    _Alignas(32) _Atomic uint64_t key[2]; /* within one cache line */
    _Atomic uint32_t generation, source;
    _Atomic uint32_t turn; /* 0: empty */
};

/* Addresses of programs are below. Beyond it x86-64 has none that may be read. */
#if defined(__x86_64__)
#define PYTHON_ADDRESS_END (UINT64_C(1) << 47)
#else
#define PYTHON_ADDRESS_END (UINT64_C(1) << 48)
#endif

#define PYTHON_WAYS 4u
#define PYTHON_STATES (64u * PYTHON_WAYS)

/* The thread states that their threads may read without the GIL, by a hash of the address. */
struct python_states {
    _Atomic uint64_t used; /* a bit for each group of PYTHON_WAYS cells that had a state */
    _Atomic uint64_t address[PYTHON_STATES]; /* 0: none */
    _Atomic(const struct tls *) owner[PYTHON_STATES];
    _Atomic uint32_t reading[PYTHON_STATES]; /* readings in progress */
};

struct python {
    void *(*current)(void); /* the thread state that runs, */
    void *(*own)(void);     /* and the one of the calling thread: equal if it holds the GIL */
    void *(*main)(void);    /* the main interpreter, */
    void *(*head)(void);    /* and the newest one: the same if there are no subinterpreters */
    const char *(*allocator)(void);
    struct python_layout layout;
    uint64_t code_type, string_type, bytes_type;
    uint64_t low, high; /* of the interpreter's own image; 0: it is part of a program */
    uint64_t evaluator, evaluator_bytes; /* its function, which the chain PYTHON_NATIVES needs */
    void (*code_freed)(void *);
    _Atomic uint32_t sources;
    char path[1024];                /* of the image; empty: the program */
    _Atomic bool states_are_blocks; /* thread states come from malloc: free is where they end */
    struct python_states states;
    _Atomic uint32_t codes_freed;
    /* The same of those at an address, by a hash of it. */
    _Atomic uint32_t generations[1u << PYTHON_GENERATIONS_BITS];
    struct python_cell known[1u << PYTHON_CODES_BITS];
    struct python_cell texts[1u << PYTHON_TEXTS_BITS];
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

/* The group of cells of the hash table `states` in which the address may be: 0 to 63. */
static inline unsigned python_states_group(uint64_t address)
{
    return (unsigned)((address >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 58);
}

/*
 * The calling thread holds the GIL with this thread state of the main interpreter: it may read the
 * state later without the GIL.
 */
void python_state_held(struct python *p, uint64_t address);

/* Whether the cell has that state, and the calling thread owns it. */
static inline bool python_state_is_own(const struct python *p, unsigned cell, uint64_t address)
{
    return atomic_load_explicit(&p->states.address[cell], memory_order_acquire) == address &&
           atomic_load_explicit(&p->states.owner[cell], memory_order_relaxed) == &tls;
}

/* The calling thread's thread state; NULL: it has none. */
static inline void *python_thread(void)
{
    struct python *p = atomic_load_explicit(&state.python, memory_order_relaxed);
    if (client_likely(!p))
        return NULL;
    unsigned cell = tls.python_cell;
    uint64_t address = atomic_load_explicit(&p->states.address[cell], memory_order_acquire);
    bool own =
        address && atomic_load_explicit(&p->states.owner[cell], memory_order_relaxed) == &tls;
    return client_likely(own) ? (void *)(uintptr_t)address : p->own();
}

/*
 * Begins to read the calling thread's state without the GIL. Until python_state_leave the state is
 * not freed. Returns the cell, or -1: the state may not be read.
 */
int python_state_enter(struct python *p, uint64_t address);
void python_state_leave(struct python *p, int cell);

/* If the block is a thread state, its thread stops reading it. Called before the free. */
void python_state_freed(struct python *p, uint64_t address);

static inline void python_freeing(const void *block)
{
    struct python *p = atomic_load_explicit(&state.python, memory_order_relaxed);
    if (client_likely(!p))
        return;
    uint64_t address = (uintptr_t)block;
    uint64_t used = atomic_load_explicit(&p->states.used, memory_order_relaxed);
    if (client_unlikely(used >> python_states_group(address) & 1))
        python_state_freed(p, address);
}

/*
 * Reads a thread state's activations, as python_read does. It may be read, see python-frames.md.
 * The walk has the items afterwards, and no `last.node` if their mixed stack is not known.
 * False: the structures are not what they should be.
 */
bool python_read_state(struct thread *t, struct python *p, uint64_t at, uint64_t low, uint64_t high,
                       bool defines);

/* The same as python_read of a state that the thread does not hold, or not yet. */
bool python_read_other(struct thread *t, struct python *p, uint64_t at, uint64_t low, uint64_t high,
                       bool defines);

/*
 * Reads the activations on the part of the stack between `low` and `high`, and up to state.depth
 * innermost frames into the items of the walk. `defines`: new sources may be described, as
 * when memory was allocated. False: there are none, or they could not be read, which is counted.
 */
static inline bool python_read(struct thread *t, void *thread, uint64_t low, uint64_t high,
                               bool defines)
{
    struct python *p = atomic_load_explicit(&state.python, memory_order_relaxed);
    uint64_t at = (uintptr_t)thread;
    if (client_unlikely(p->current() != thread || !python_state_is_own(p, tls.python_cell, at)))
        return python_read_other(t, p, at, low, high, defines);
    if (client_likely(python_read_state(t, p, at, low, high, defines)))
        return t->walk.item_count > 0;
    atomic_fetch_add_explicit(&state.header->python_unread, 1, memory_order_relaxed);
    return false;
}

/* The mixed stack has changed: more of it than the innermost Python instruction. */
static inline void python_stack_changed(struct walk *walk)
{
    walk->last.node = 0;
    walk->serial = ++walk->serials;
    walk->bare = ++walk->serials;
}

static inline struct walk_step *python_step(struct walk *walk, uint64_t instruction)
{
    return &walk->steps[instruction / 2 % CLIENT_STEPS]; /* instructions have two bytes each */
}

/* The mixed stack has that node: also when its innermost function comes to the instruction again.
 */
static inline uint32_t python_stack_named(struct walk *walk, uint32_t node)
{
    if (walk->item_count) {
        const struct python_item *i = &walk->items[walk->item_count - 1];
        *python_step(walk, i->instruction) =
            (struct walk_step){i->instruction, walk->serial, i->source, node};
    }
    return walk->last.node = node;
}

/* Whether a native frame is in the interpreter's own image. */
static inline bool python_is_interpreter(const struct python *p, uint64_t pc)
{
    return pc - p->low < p->high - p->low;
}

/* Whether a native frame is the evaluator's. */
static inline bool python_is_evaluator(const struct python *p, uint64_t pc)
{
    return pc - p->evaluator < p->evaluator_bytes;
}

/* How often a code object at that address, or one of the same hash, was freed. */
static inline _Atomic uint32_t *python_generation(struct python *p, uint64_t code)
{
    return &p->generations[(code >> 4) * UINT64_C(0x9e3779b97f4a7c15) >>
                           (64 - PYTHON_GENERATIONS_BITS)];
}

/* The source of an instruction of a code object; false: it cannot be described. */
bool python_describe(struct thread *t, struct python *p, uint64_t code, uint64_t instruction,
                     bool generator, uint32_t *source);

/*
 * Cells of hash tables that any number of threads use without waiting. A reader that meets a writer
 * finds nothing, and a writer that meets another one drops its entry: the tables are caches. A
 * signal handler that jumps away from a writer leaves a cell that is not used again.
 */
struct python_entry {
    uint64_t key[2];
    uint32_t generation, source;
};

/* Sets the entry's source if the cell has the rest of it. */
static inline bool python_cell_find(struct python_cell *cell, struct python_entry *entry)
{
    uint32_t turn = atomic_load_explicit(&cell->turn, memory_order_acquire);
    bool same = atomic_load_explicit(&cell->key[0], memory_order_relaxed) == entry->key[0] &&
                atomic_load_explicit(&cell->key[1], memory_order_relaxed) == entry->key[1] &&
                atomic_load_explicit(&cell->generation, memory_order_relaxed) == entry->generation;
    uint32_t source = atomic_load_explicit(&cell->source, memory_order_relaxed);
    atomic_thread_fence(memory_order_acquire);
    if (!turn || turn & 1 || !same ||
        atomic_load_explicit(&cell->turn, memory_order_relaxed) != turn)
        return false;
    entry->source = source;
    return true;
}

static inline void python_cell_put(struct python_cell *cell, const struct python_entry *entry)
{
    uint32_t turn = atomic_load_explicit(&cell->turn, memory_order_relaxed);
    if (turn & 1 || !atomic_compare_exchange_strong(&cell->turn, &turn, turn + 1))
        return;
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&cell->key[0], entry->key[0], memory_order_relaxed);
    atomic_store_explicit(&cell->key[1], entry->key[1], memory_order_relaxed);
    atomic_store_explicit(&cell->generation, entry->generation, memory_order_relaxed);
    atomic_store_explicit(&cell->source, entry->source, memory_order_relaxed);
    atomic_store_explicit(&cell->turn, turn + 2, memory_order_release);
}
