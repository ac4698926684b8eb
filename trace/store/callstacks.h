#pragma once

/*
 * Call stacks as a tree: a node is (parent node, frame), the root's children are outermost frames,
 * and a call stack is the node of its innermost frame. All ids are 32-bit. Call stack ids count
 * from 1 in order of discovery, as in the file; 0 is none.
 *
 * A frame is the resolution of one address of a call stack: one function, or several for inlined
 * calls, innermost first.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/map.h"
#include "base/pageable.h"
#include "base/vec.h"
#include "protocol/event.h"
#include "trace/file/limits.h"
#include "trace/file/store_records.h"

/* Bit 62 of a frame id: a frame described by the client itself (server/TracyEvent.hpp). */
#define FRAME_ID_CUSTOM (UINT64_C(1) << 62)

struct callstack_node {
    uint32_t parent; /* node; 0: root */
    uint32_t frame;  /* frame number */
};

struct callstack {
    uint32_t node; /* innermost */
    uint32_t len;
};

struct frame {
    uint64_t id;
    uint32_t image; /* string number */
    uint32_t first; /* index of the first of `n` inlines; n = 0 while unresolved */
    uint32_t n;
};

/*
 * A call stack is identified by 96 bits of a hash that is seeded randomly in every process. No
 * client can prepare two colliding stacks, and comparing frames would cost a walk through cold
 * memory for every event.
 */
#define CALLSTACKS_SECRET 192u
/* The most frames of a stack for the faster of two hashes; even. */
#define CALLSTACKS_KEYS 64u

struct callstack_key {
    uint64_t check;
    uint32_t tag;
};

/* A call stack identified by 96 bits of a hash with a secret seed. */
struct callstack_slot {
    uint64_t check;
    uint32_t tag; /* these bits choose the slot */
    uint32_t id;  /* 0: empty */
};

/* A node that is not its parent + 1. The tag spares a look at nodes that are on disk. */
struct callstack_child {
    uint32_t tag;  /* bits of the hash of (parent, frame); they choose the slot */
    uint32_t node; /* 0: empty */
};

struct callstacks {
    struct pageable *pageable;        /* allocator of the tables; NULL: the heap */
    VEC(struct callstack_node) nodes; /* nodes.at[0] is the root */
    struct callstack_child *children; /* hash table */
    size_t children_mask;
    size_t children_count;
    VEC(struct callstack) list;      /* list.at[id - 1] */
    struct callstack_slot *contents; /* hash table */
    size_t contents_mask;
    size_t contents_count;
    uint64_t seed;
    uint8_t secret[CALLSTACKS_SECRET];  /* of the hash, derived from the seed */
    uint64_t keys[CALLSTACKS_KEYS + 3]; /* of the faster hash: one per frame, and its own */
    struct map frame_numbers;           /* frame id → frame number + 1 */
    VEC(struct frame) frames;
    VEC(struct rec_inline_frame) inlines;
    uint32_t limit;    /* CALLSTACKS_MAX, or less in tests */
    uint32_t other;    /* the stand-in for call stacks beyond the limit; 0 until needed */
    uint64_t overflow; /* how often it was used */
};

int callstacks_init(struct callstacks *c, struct err *e);
void callstacks_release(struct callstacks *c);

/* Makes an empty `c` allocate from `p`. */
void callstacks_use(struct callstacks *c, struct pageable *p);

/*
 * Finds or adds the call stack of `n` frame ids, innermost first. Beyond 99 % of the limit, new
 * ones become one call stack of a single frame "(other)" and are counted.
 */
int callstacks_intern(struct callstacks *c, const uint64_t *frame_ids, uint32_t n, uint32_t *id,
                      bool *fresh, struct err *e);

/*
 * Only the search of callstacks_intern, for many stacks at once. An id is 0 when the call stack is
 * new, when it is deeper than CALLSTACKS_KEYS, and when an address has one of its top two bits set,
 * which frame ids lack. In these cases use callstacks_intern.
 */
void callstacks_find(const struct callstacks *c, struct sent_callstack *stacks, size_t n);

/* Appends without searching for an equal stack, so that ids equal a file's positions. */
int callstacks_append(struct callstacks *c, const uint64_t *frame_ids, uint32_t n, struct err *e);

/*
 * Rebuilds the tree in its original order, node by node and stack by stack, for a table that has
 * the frames already. callstacks_intern does not find stacks that are not `findable`. ERR_INPUT for
 * a node that exists.
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

/* The frame number of an id, added unresolved if new; UINT32_MAX when memory is short. */
uint32_t callstacks_frame(struct callstacks *c, uint64_t frame_id);

/* The frame of an id, or NULL. */
const struct frame *callstacks_find_frame(const struct callstacks *c, uint64_t frame_id);

/* Sets the functions of a frame. The first answer counts; later ones are ignored. */
int callstacks_resolve(struct callstacks *c, uint64_t frame_id, uint32_t image,
                       const struct rec_inline_frame *inlines, uint32_t n, struct err *e);

/* The same by the number from callstacks_frame. */
int callstacks_resolve_number(struct callstacks *c, uint32_t number, uint32_t image,
                              const struct rec_inline_frame *inlines, uint32_t n, struct err *e);

/* The client address of a frame id: the top two bits repeat bits 60 and 61 (0 for custom frames).
 */
uint64_t frame_address(uint64_t frame_id);
