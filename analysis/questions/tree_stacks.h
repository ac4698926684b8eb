#pragma once

/*
 * What call-stack trees are made of: the figures of the selected allocations by call stack and
 * thread, and the program's functions of each call stack. One sweep serves trees in both
 * directions, of all groupings, of all pools together and of each one.
 */

#include "analysis/figures/accounting.h"
#include "analysis/figures/cut_stacks.h"
#include "analysis/names/program_frames.h"
#include "analysis/questions/tree.h"
#include "base/map.h"
#include "base/saturate.h"

/* A text, with a hash that is the same in every tree of this process. 0 is the empty one. */
struct tree_text {
    struct view view;
    uint64_t hash;
};

#define TREE_TEXTS_MAX (UINT32_MAX / 4)

/* A function of a frame; texts by number. What no grouping compares is 0. */
struct tree_function {
    uint32_t function, file, image;
    uint32_t module; /* the image without folders */
    uint32_t line;
    uint32_t first; /* the number of the first equal one, + 1; 0: not described yet */
    bool is_cut;    /* frame_name_is_cut */
    uint64_t address;
};

/* The functions of a call stack: a range of tree_stacks.numbers, innermost first, equal ones by
   the number of the first. */
struct tree_way {
    size_t first;
    uint32_t len; /* at least 1; 0 while unknown */
};

struct tree_stack {
    uint32_t callstack, thread; /* thread: 0 in a list of all threads together */
    struct tree_way way;
    struct tree_figures figures;
};

/* The call stacks of threads of one name: a range of list.order. */
struct tree_thread {
    uint32_t text;
    size_t begin, end;
    struct tree_node sum; /* its callstack, callstack_bytes, inclusive */
};

struct tree_stack_list {
    bool made;
    VEC(struct tree_stack) stacks;
    struct tree_node sum; /* of all, as of a thread */
    /* Of a list by thread: */
    VEC(struct tree_thread) threads;
    VEC(uint32_t) thread_of; /* by number of a thread: its place in `threads` */
    VEC(uint32_t) order;     /* numbers of call stacks, those of a thread together */
};

struct tree_stacks_options {
    const struct tree_options *tree;    /* skip, beside, no_inlines and all_frames are used */
    bool by_thread, by_type;            /* for trees by thread and by type, too */
    bool each_pool;                     /* for tree_stacks_choose */
    const struct memory_observer *also; /* `also_count` of them, at most 2, see all steps */
    size_t also_count;
};

struct tree_stacks {
    const struct trace *trace;
    struct tree_options options;
    size_t pool_count;      /* selected, */
    size_t all_pools;       /* and of the trace, */
    uint32_t *pool_of;      /* by whose number the selected one; UINT32_MAX: none */
    struct accounting all;  /* the selected pools as one */
    struct accounting each; /* empty unless each_pool */
    struct map keys;        /* thread << 32 | call stack → key */
    VEC(uint64_t) pairs;    /* the same by key; empty: keys are call stacks */
    struct program_frames program;
    struct cut_stacks cut;
    struct types types; /* by_type */
    VEC(struct tree_text) texts;
    struct owned_texts owned;        /* texts made for trees */
    struct map text_numbers;         /* hash → number; on a collision, the next key */
    struct map function_numbers;     /* the same of functions, of the first equal ones */
    uint32_t *first_function;        /* by frame: the number of its innermost function */
    struct tree_function *functions; /* by number; then the two special ones */
    uint32_t function_count;
    struct tree_way *ways; /* by call stack; `callstack_count` of them, with 0 */
    size_t callstack_count;
    VEC(uint32_t) numbers; /* of functions */
    /* Of the chosen pool: */
    uint32_t pool;
    struct tree_stack_list lists[2]; /* all threads together, and by thread; made when asked for */
    int64_t peak_time;               /* ns; -1 if nothing was selected */
    bool has_resident;               /* TREE_RESIDENT is known, except by thread */
    /* Called each TREE_STEPS_BETWEEN steps of long work, on trees too; may be NULL. */
    void (*working)(void *ctx);
    void *working_ctx;
    uint64_t steps;
};

#define TREE_STEPS_BETWEEN 4096u

static inline void tree_stacks_step(struct tree_stacks *s)
{
    if (++s->steps % TREE_STEPS_BETWEEN == 0 && s->working)
        s->working(s->working_ctx);
}

#define TREE_ALL_POOLS UINT32_MAX

/*
 * Counts, and chooses all pools. `s` need not be initialised; valid as long as the trace, also
 * while more is recorded into it.
 */
int tree_stacks_init(struct tree_stacks *s, struct selection *from,
                     const struct tree_stacks_options *o, struct err *e);
void tree_stacks_release(struct tree_stacks *s);

/*
 * Chooses a pool, an index in the selection's pools, or all. Invalidates trees that still grow.
 * Needs each_pool.
 */
void tree_stacks_choose(struct tree_stacks *s, uint32_t pool);

/* The call stacks of the chosen pool; NULL: memory is short. */
const struct tree_stack_list *tree_stacks_list(struct tree_stacks *s, bool by_thread);

static inline void tree_figures_add(struct tree_figures *to, const struct tree_figures *f)
{
    for (unsigned i = 0; i < TREE_METRICS; i++)
        to->at[i] = saturating_add(to->at[i], f->at[i]);
}

/* Adds figures to a node, and a call stack of that many bytes. */
static inline void tree_node_pass(struct tree_node *n, const struct tree_figures *f,
                                  uint32_t callstack, uint64_t bytes)
{
    tree_figures_add(&n->inclusive, f);
    /* Call stacks come in no order: of equal ones the first, before allocations without one. */
    bool first = n->callstack == 0 || (callstack && callstack < n->callstack);
    if (bytes > n->callstack_bytes || (bytes == n->callstack_bytes && first)) {
        n->callstack = callstack;
        n->callstack_bytes = bytes;
    }
}

void owned_texts_release(struct owned_texts *t);

/* The number of a text, which must outlive `s`; UINT32_MAX: memory is short. */
uint32_t tree_stacks_text(struct tree_stacks *s, struct view text);

/* The same of a text that `s` takes over. */
uint32_t tree_stacks_keep(struct tree_stacks *s, char *text);

/* Special functions of a way: allocations without a call stack, callers that are missing. */
static inline uint32_t tree_stacks_none(const struct tree_stacks *s)
{
    return s->function_count;
}

static inline uint32_t tree_stacks_cut(const struct tree_stacks *s)
{
    return s->function_count + 1;
}
