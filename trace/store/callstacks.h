#ifndef TIDEMARK_TRACE_STORE_CALLSTACKS_H
#define TIDEMARK_TRACE_STORE_CALLSTACKS_H

/*
 * Call stacks as a tree: a node is (parent node, frame), the root's children are outermost frames,
 * a call stack is the node of its innermost frame. All ids are 32-bit; call stack ids count from 1
 * in order of discovery, as in the file, 0 is none.
 *
 * A frame is what one address of a call stack resolved to: one function, or several when calls were
 * inlined there, innermost first.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/map.h"
#include "base/pageable.h"
#include "base/vec.h"
#include "protocol/event.h"
#include "trace/file/limits.h"

/* Bit 62 of a frame id: a frame that the client described itself (server/TracyEvent.hpp). */
#define FRAME_ID_CUSTOM (UINT64_C(1) << 62)

struct callstack_node {
    uint32_t parent; /* node; 0 = root */
    uint32_t frame;  /* frame number */
};

struct callstack {
    uint32_t node; /* innermost */
    uint32_t len;
};

struct frame_inline {
    uint32_t function; /* string numbers */
    uint32_t file;
    uint32_t line;
    uint64_t symbol; /* address of the function's symbol, 0 unknown */
};

struct frame {
    uint64_t id;
    uint32_t image; /* string number */
    uint32_t first; /* index of the first of `n` inlines; n = 0 while unresolved */
    uint32_t n;
};

/*
 * A call stack's content is known by 96 bits of a hash that is seeded anew in every process: no
 * client can prepare two stacks that collide, and comparing frames would cost a walk through cold
 * memory for every event.
 */
#define CALLSTACKS_SECRET 192u
/* Frames of a stack that the faster of two hashes takes; even. */
#define CALLSTACKS_KEYS 64u

struct callstack_key {
    uint64_t check;
    uint32_t tag;
};

/* A call stack by its contents: 96 bits of a hash with a secret seed stand for them. */
struct callstack_slot {
    uint64_t check;
    uint32_t tag; /* these bits choose the slot */
    uint32_t id;  /* 0 = empty */
};

struct callstacks {
    struct pageable *pageable;        /* for all but `contents`; NULL: the heap */
    VEC(struct callstack_node) nodes; /* nodes.at[0] is the root */
    uint32_t *children;               /* hash of (parent, frame) → node */
    size_t children_mask;
    VEC(struct callstack) list;      /* list.at[id - 1] */
    struct callstack_slot *contents; /* hash table */
    size_t contents_mask;
    size_t contents_count;
    uint64_t seed;
    uint8_t secret[CALLSTACKS_SECRET];  /* of the hash, made from the seed */
    uint64_t keys[CALLSTACKS_KEYS + 3]; /* the same for the faster hash: by frame, and its own */
    struct map frame_numbers;           /* frame id → frame number + 1 */
    VEC(struct frame) frames;
    VEC(struct frame_inline) inlines;
    uint32_t limit;    /* CALLSTACKS_MAX, or less in tests */
    uint32_t other;    /* stands in for call stacks beyond the limit, 0 until needed */
    uint64_t overflow; /* how many times it did */
};

int callstacks_init(struct callstacks *c, struct err *e);
void callstacks_release(struct callstacks *c);

/* Has `c`, to which nothing was added, take its memory from `p`. */
void callstacks_use(struct callstacks *c, struct pageable *p);

/*
 * Finds or adds the call stack of `n` frame ids, innermost first. Beyond 99 % of the limit new ones
 * become one call stack of a single frame "(other)" and are counted.
 */
int callstacks_intern(struct callstacks *c, const uint64_t *frame_ids, uint32_t n, uint32_t *id,
                      bool *fresh, struct err *e);

/*
 * The first half of it alone, for many stacks at once. An id is 0 when there is no such call stack
 * yet, and always for stacks deeper than CALLSTACKS_KEYS, and when an address has one of its top
 * two bits set, which its frame id has not: then callstacks_intern finds it.
 */
void callstacks_find(const struct callstacks *c, struct sent_callstack *stacks, size_t n);

/* Appends without looking for an equal one, so that ids equal a file's positions. */
int callstacks_append(struct callstacks *c, const uint64_t *frame_ids, uint32_t n, struct err *e);

/*
 * The tree again, node by node and stack by stack in the order in which they came, for a table
 * whose frames are there already. What is no `findable` stack callstacks_intern does not find.
 * ERR_INPUT for a node that is there.
 */
int callstacks_restore_node(struct callstacks *c, const struct callstack_node *node, struct err *e);
int callstacks_restore(struct callstacks *c, const struct callstack *stack, bool findable,
                       struct err *e);

static inline const struct callstack *callstacks_get(const struct callstacks *c, uint32_t id)
{
    return id == 0 || id > c->list.len ? NULL : &c->list.at[id - 1];
}

/*
 * Walks a call stack from the innermost frame: `node` starts as the call stack's node and ends as
 * 0. for (uint32_t node = stack->node; node; node = c->nodes.at[node].parent) frame =
 * &c->frames.at[c->nodes.at[node].frame];
 */

/* The frame number of an id, added unresolved when new; UINT32_MAX when memory is short. */
uint32_t callstacks_frame(struct callstacks *c, uint64_t frame_id);

/* The frame of an id, or NULL. */
const struct frame *callstacks_find_frame(const struct callstacks *c, uint64_t frame_id);

/* Says what a frame is. The first answer stands; a later one is ignored. */
int callstacks_resolve(struct callstacks *c, uint64_t frame_id, uint32_t image,
                       const struct frame_inline *inlines, uint32_t n, struct err *e);

/* The same by its number, which callstacks_frame gave. */
int callstacks_resolve_number(struct callstacks *c, uint32_t number, uint32_t image,
                              const struct frame_inline *inlines, uint32_t n, struct err *e);

/* The client address of a frame id: the top two bits repeat bits 60 and 61 (0 for custom frames).
 */
uint64_t frame_address(uint64_t frame_id);

#endif
