#pragma once

/*
 * The call-stack tree of selected allocations: what each caller and everything below it allocated.
 * Top-down begins at the outermost callers; bottom-up at the functions that allocated, with their
 * callers below. (The profiler's Memory tab uses the two names the other way round.)
 *
 * Built in one sweep: figures are counted per call stack (tree_stacks.h), then the call stacks
 * through a node are divided among its children. tree_build does that for all nodes, tree_open for
 * a node when its children are asked for. Memory grows with distinct call stacks.
 */

#include <stdbool.h>
#include <stdint.h>

#include "analysis/figures/selection.h"
#include "analysis/names/frames.h"
#include "analysis/names/skiplist.h"
#include "analysis/names/types.h"
#include "base/err.h"
#include "base/vec.h"

/* In the order of the words of --by. */
enum tree_by {
    TREE_FUNCTION,
    TREE_LINE,   /* function, file and line */
    TREE_FILE,   /* calls within one file are one node; also for the next ones */
    TREE_IMAGE,  /* the path of the program or library */
    TREE_MODULE, /* its name without folders */
    TREE_THREAD, /* functions below the thread that allocated */
    TREE_TYPE,   /* functions below the type of the blocks (types.h) */
};

const char *tree_by_name(enum tree_by by);

/* In the order of the words of --metric. */
enum tree_metric {
    TREE_BYTES,
    TREE_COUNT,
    TREE_LIVE_BYTES,
    TREE_LIVE_COUNT,
    TREE_PEAK_BYTES, /* live at the peak of the selected pools together */
    TREE_PEAK_COUNT,
    TREE_TEMPORARY, /* blocks freed at once by the thread that allocated them */
    TREE_RESIDENT,  /* bytes of live blocks that were in memory (resident_stacks.h) */
    TREE_METRICS,
};

const char *tree_metric_name(enum tree_metric metric);

static inline bool tree_metric_is_bytes(enum tree_metric m)
{
    return m == TREE_BYTES || m == TREE_LIVE_BYTES || m == TREE_PEAK_BYTES || m == TREE_RESIDENT;
}

struct tree_figures {
    uint64_t at[TREE_METRICS];
};

#define TREE_ROOT 0u

struct tree_node {
    uint32_t parent;       /* node; the root's is itself */
    uint32_t label;        /* in tree.labels */
    uint32_t first, count; /* its children: a range of tree.children, highest metric first */
    uint32_t depth;        /* of the root: 0 */
    uint32_t callstack;    /* the one through it with most bytes; 0: none */
    uint32_t others;       /* 0, or how many smaller siblings it stands for; it has no label */
    uint64_t callstack_bytes;
    struct tree_figures inclusive, exclusive;
};

/* The identity of a node; parts that the grouping does not compare are empty. */
struct tree_label {
    struct frame_view frame;
    struct view name;  /* of the thread or type, for nodes of one; else empty */
    bool is_type;      /* it is one; an empty name: unknown */
    bool no_callstack; /* allocations without a call stack */
};

struct program_frames;

struct tree_options {
    enum tree_by by;
    bool bottom_up;
    bool no_inlines; /* one node for each frame, its outermost function, as in the profiler */
    bool all_frames; /* with the allocator's and the instrumentation's functions */
    enum tree_metric sort;
    uint32_t most; /* of tree_open: children made at a time, the largest first; 0: all */
    const struct skiplist *skip; /* NULL: the built-in rules */
    /* NULL, or a trace that is compared: its wrappers are passed over, too (program_frames.h). */
    const struct program_frames *beside;
    /* Also receives all steps, before the tree is built; may be NULL. */
    const struct memory_observer *also;
};

struct owned_texts {
    VEC(char *) list;
};

struct tree_growth;
struct tree_stacks;

struct tree {
    const struct trace *trace;
    struct tree_options options;
    VEC(struct tree_node) nodes; /* the first one is the root, the whole */
    VEC(uint32_t) children;
    VEC(uint8_t) sorted; /* of each node: the metric by which its children are sorted */
    VEC(struct tree_label) labels;
    struct owned_texts texts;   /* of the labels, as types */
    struct types types;         /* of the labels, in a complete tree */
    int64_t peak_time;          /* ns; -1 if nothing was selected */
    bool has_resident;          /* TREE_RESIDENT is known */
    bool failed;                /* memory was short: nodes may be missing */
    struct tree_growth *growth; /* NULL: all nodes are there */
};

/* The metrics that a tree has: those below this number. */
static inline unsigned tree_metric_count(const struct tree *t)
{
    return t->has_resident ? TREE_METRICS : TREE_RESIDENT;
}

/*
 * `t` need not be initialised. It is valid as long as the trace. ERR_USAGE: it is to be sorted by
 * TREE_RESIDENT, which is not known: of a part of a pool, by thread, or without a look.
 */
int tree_build(struct tree *t, struct selection *s, const struct tree_options *options,
               struct err *e);
void tree_release(struct tree *t);

/*
 * A tree of only its root, whose nodes come with tree_children. `stacks` must outlive it, and must
 * have been counted by thread and by type for the groupings of those names.
 */
int tree_open(struct tree *t, struct tree_stacks *stacks, const struct tree_options *options,
              struct err *e);

/*
 * Sorts by another metric: the children of each node when tree_children is called for it. A tree
 * in which a node stands for others begins anew with its root; so numbers of nodes are not kept.
 */
void tree_sort(struct tree *t, enum tree_metric metric);

/*
 * The children of a node, sorted; nodes[node].count of them, which is valid from this call on. If
 * there are more than options.most, the last one stands for the others. Moves the nodes in memory.
 * If t->failed is set, some are missing.
 */
const uint32_t *tree_children(struct tree *t, uint32_t node);

/* ---- of a tree of tree_open */

/*
 * How many children a node has, 2 standing for more, with something live if `live`. Without making
 * them: it looks at call stacks until it knows.
 */
unsigned tree_peek(struct tree *t, uint32_t node, bool live);

/*
 * Makes the nodes below a node, other than the root, that all its call stacks go through, in one
 * pass. Without effect if there are none, or the node has grown.
 */
void tree_chain(struct tree *t, uint32_t node);

/* The identity of a node: of the labels from the root to it, equal in other trees. */
uint64_t tree_path(const struct tree *t, uint32_t node);

/* Takes the next `most` children of a node out of those that its last one stands for. */
void tree_more(struct tree *t, uint32_t node, uint32_t most);

/* Makes the child of a node that has a path. Returns it; TREE_ROOT: there is none. */
uint32_t tree_child(struct tree *t, uint32_t node, uint64_t path);

/* The nodes of the `number`th call stack, whether they are there or not: from the root's child. */
struct tree_step {
    uint32_t tag;   /* of the node's label: see tree_tag_label */
    uint32_t depth; /* begin with 0 */
    uint32_t at;
    uint64_t path; /* its tree_path */
};
bool tree_step(struct tree *t, size_t number, struct tree_step *s);

/* The label of nodes with a tag. Tags are small numbers. */
struct tree_label tree_tag_label(const struct tree *t, uint32_t tag);

/* How many call stacks are in the tree, and the figures of each. */
size_t tree_stack_count(const struct tree *t);
const struct tree_figures *tree_stack_figures(const struct tree *t, size_t number);

/* Steps along call stacks so far: the work that was done. */
uint64_t tree_steps(const struct tree *t);

/* The display name of a node: bytes of the trace, escape them. */
void tree_label_name(struct buf *out, const struct tree *t, const struct tree_label *label);
/* … with long functions shortened (function_name_short): for text that people read. */
void tree_label_short(struct buf *out, const struct tree *t, const struct tree_label *label);
/* … with the bare names of functions (function_name): where there is little room. */
void tree_label_bare(struct buf *out, const struct tree *t, const struct tree_label *label);
