#include "trace/store/callstacks.h"

#include <stdlib.h>
#include <string.h>

/* Inlined, because hashing a short stack costs about as much as a library call. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/bytes.h"

#define NODES_MAX UINT32_MAX
#define FIND_AT_ONCE ((size_t)32)
#define CHILDREN_BYTES(C) (((C)->children_mask + 1) * sizeof *(C)->children)
#define CONTENTS_BYTES(C) (((C)->contents_mask + 1) * sizeof *(C)->contents)
/*
 * Part of the hash, beside the number of frames: marks stacks with custom frames. So addresses from
 * a client never match such a stack, whatever bits they have.
 */
#define KIND_CUSTOM (UINT64_C(1) << 32)

_Static_assert(CALLSTACKS_SECRET == XXH3_SECRET_DEFAULT_SIZE, "size of a seeded secret");

int callstacks_init(struct callstacks *c, struct err *e)
{
    *c = (struct callstacks){.limit = CALLSTACKS_MAX, .seed = map_hash(0x737461636b)};
    XXH3_generateSecret_fromSeed(c->secret, c->seed);
    for (size_t i = 0; i < sizeof c->keys / sizeof c->keys[0]; i++)
        c->keys[i] = XXH3_64bits_withSecret(&i, sizeof i, c->secret, sizeof c->secret);
    c->children_mask = 1023;
    c->contents_mask = 1023;
    c->children = calloc(c->children_mask + 1, sizeof *c->children);
    c->contents = calloc(c->contents_mask + 1, sizeof *c->contents);
    if (!c->children || !c->contents || !vec_push(&c->nodes, (struct callstack_node){0, 0})) {
        callstacks_release(c);
        return err_no_memory(e, "call stacks");
    }
    return 0;
}

void callstacks_use(struct callstacks *c, struct pageable *p)
{
    c->pageable = c->frame_numbers.pageable = p;
}

void callstacks_release(struct callstacks *c)
{
    pageable_vec_release(c->pageable, &c->nodes);
    pageable_free(c->pageable, c->children, c->children ? CHILDREN_BYTES(c) : 0);
    pageable_vec_release(c->pageable, &c->list);
    pageable_free(c->pageable, c->contents, c->contents ? CONTENTS_BYTES(c) : 0);
    map_release(&c->frame_numbers);
    pageable_vec_release(c->pageable, &c->frames);
    pageable_vec_release(c->pageable, &c->inlines);
    *c = (struct callstacks){0};
}

uint32_t callstacks_frame(struct callstacks *c, uint64_t frame_id)
{
    bool fresh;
    uint64_t *number = map_add(&c->frame_numbers, frame_id, &fresh);
    if (!number)
        return UINT32_MAX;
    if (fresh) {
        /* Assign a number even if the push fails, so that the map stays consistent. */
        *number = c->frames.len;
        if (c->frames.len >= UINT32_MAX - 1 ||
            !pageable_push(c->pageable, &c->frames, (struct frame){.id = frame_id})) {
            *number = UINT32_MAX;
        }
    }
    return (uint32_t)*number;
}

const struct frame *callstacks_find_frame(const struct callstacks *c, uint64_t frame_id)
{
    const uint64_t *number = map_find(&c->frame_numbers, frame_id);
    return number && *number < c->frames.len ? &c->frames.at[*number] : NULL;
}

int callstacks_resolve(struct callstacks *c, uint64_t frame_id, uint32_t image,
                       const struct rec_inline_frame *inlines, uint32_t n, struct err *e)
{
    return callstacks_resolve_number(c, callstacks_frame(c, frame_id), image, inlines, n, e);
}

int callstacks_resolve_number(struct callstacks *c, uint32_t number, uint32_t image,
                              const struct rec_inline_frame *inlines, uint32_t n, struct err *e)
{
    if (number == UINT32_MAX || !pageable_reserve(c->pageable, &c->inlines, c->inlines.len + n) ||
        c->inlines.len + n > UINT32_MAX)
        return err_no_memory(e, "call stack frames");
    struct frame *f = &c->frames.at[number];
    if (f->n || n == 0)
        return 0;
    f->image = image;
    f->first = (uint32_t)c->inlines.len;
    f->n = n;
    memcpy(c->inlines.at + c->inlines.len, inlines, n * sizeof *inlines);
    c->inlines.len += n;
    return 0;
}

uint64_t frame_address(uint64_t frame_id)
{
    if (frame_id & FRAME_ID_CUSTOM)
        return 0;
    return (frame_id & ~(UINT64_C(3) << 62)) | (frame_id & UINT64_C(3) << 60) << 2;
}

static uint32_t child_tag(uint32_t parent, uint32_t frame)
{
    return (uint32_t)map_hash((uint64_t)parent << 32 | frame);
}

/*
 * A node that follows its parent is found without the hash. So the frames of a new stack cost one
 * entry at most, and a table on disk is filled in order.
 */
static bool follows_parent(const struct callstacks *c, size_t node)
{
    return c->nodes.at[node].parent == node - 1;
}

static void place_child(struct callstack_child *table, size_t mask, struct callstack_child child)
{
    size_t at = child.tag & mask;
    while (table[at].node)
        at = (at + 1) & mask;
    table[at] = child;
}

static bool callstacks_grow_children(struct callstacks *c)
{
    size_t mask = c->children_mask * 2 + 1;
    struct callstack_child *table = pageable_zeroed(c->pageable, (mask + 1) * sizeof *table);
    if (!table)
        return false;
    for (size_t i = 0; i <= c->children_mask; i++) {
        if (c->children[i].node)
            place_child(table, mask, c->children[i]);
    }
    pageable_free(c->pageable, c->children, CHILDREN_BYTES(c));
    c->children = table;
    c->children_mask = mask;
    return true;
}

/* The node of `frame` below `parent`; 0 when there is none. */
static uint32_t find_child(const struct callstacks *c, uint32_t parent, uint32_t frame)
{
    const struct callstack_node *nodes = c->nodes.at;
    uint32_t next = parent + 1;
    if (next < c->nodes.len && nodes[next].parent == parent) {
        if (nodes[next].frame == frame)
            return next;
    } else if (next == c->nodes.len) {
        return 0;
    }
    const uint32_t tag = child_tag(parent, frame);
    for (size_t at = tag & c->children_mask;; at = (at + 1) & c->children_mask) {
        const struct callstack_child child = c->children[at];
        if (child.node == 0 || (child.tag == tag && nodes[child.node].parent == parent &&
                                nodes[child.node].frame == frame))
            return child.node;
    }
}

/* The same, added if new; 0 when memory is short. */
static uint32_t callstacks_child(struct callstacks *c, uint32_t parent, uint32_t frame)
{
    uint32_t number = find_child(c, parent, frame);
    if (number)
        return number;
    if (c->nodes.len >= NODES_MAX ||
        !pageable_push(c->pageable, &c->nodes, (struct callstack_node){parent, frame}))
        return 0;
    number = (uint32_t)(c->nodes.len - 1);
    if (follows_parent(c, number))
        return number;
    place_child(c->children, c->children_mask,
                (struct callstack_child){child_tag(parent, frame), number});
    if (++c->children_count > (c->children_mask + 1) / 4 * 3 && !callstacks_grow_children(c))
        return 0;
    return number;
}

int callstacks_append(struct callstacks *c, const uint64_t *frame_ids, uint32_t n, struct err *e)
{
    if (c->list.len >= CALLSTACKS_MAX)
        return err_set(e, ERR_INPUT, "more than %u call stacks", CALLSTACKS_MAX);
    uint32_t node = 0;
    for (uint32_t i = n; i-- > 0;) {
        uint32_t frame = callstacks_frame(c, frame_ids[i]);
        if (frame == UINT32_MAX || !(node = callstacks_child(c, node, frame)))
            return err_no_memory(e, "call stacks");
    }
    if (!pageable_push(c->pageable, &c->list, (struct callstack){node, n}))
        return err_no_memory(e, "call stacks");
    return 0;
}

static bool callstacks_grow_contents(struct callstacks *c)
{
    size_t mask = c->contents_mask * 2 + 1;
    struct callstack_slot *table = pageable_zeroed(c->pageable, (mask + 1) * sizeof *table);
    if (!table)
        return false;
    for (size_t i = 0; i <= c->contents_mask; i++) {
        if (!c->contents[i].id)
            continue;
        size_t at = c->contents[i].tag & mask;
        while (table[at].id)
            at = (at + 1) & mask;
        table[at] = c->contents[i];
    }
    pageable_free(c->pageable, c->contents, CONTENTS_BYTES(c));
    c->contents = table;
    c->contents_mask = mask;
    return true;
}

/* At 99 % of the format's limit, new call stacks share one named "(other)" and are counted. */
static int callstacks_take_other(struct callstacks *c, uint32_t *id, struct err *e)
{
    if (!c->other) {
        uint64_t frame = FRAME_ID_CUSTOM | ((UINT64_C(1) << 61) - 1);
        if (callstacks_append(c, &frame, 1, e) != 0)
            return -1;
        c->other = (uint32_t)c->list.len;
    }
    c->overflow++;
    *id = c->other;
    return 0;
}

/*
 * The sum of products of neighbours, each with a secret added, is a universal hash: which stacks
 * collide depends only on the secrets (NH of Black, Halevi, Krawczyk, Krovetz, Rogaway: UMAC,
 * 1999). Its multiplications are independent, so it takes a third of the time of XXH3, which hashes
 * the rare deeper stacks. At the end the number of frames is mixed in, and all bits of the sum
 * affect all bits of the key.
 */
static inline unsigned __int128 hash_pair(const uint8_t *ids, const uint64_t *keys)
{
    return (unsigned __int128)(load_u64(ids) + keys[0]) * (load_u64(ids + 8) + keys[1]);
}

static inline struct callstack_key hash_short(const uint64_t *keys, const uint8_t *ids, uint32_t n,
                                              uint64_t kind)
{
    const uint64_t *own = keys + CALLSTACKS_KEYS;
    const uint8_t *eights = ids + (size_t)(n & ~7u) * 8, *twos = ids + (size_t)(n & ~1u) * 8;
    unsigned __int128 sum = 0;
    /* Groups of eight first: most stacks are deep. */
    for (; ids != eights; ids += 64, keys += 8) {
        sum += hash_pair(ids, keys);
        sum += hash_pair(ids + 16, keys + 2);
        sum += hash_pair(ids + 32, keys + 4);
        sum += hash_pair(ids + 48, keys + 6);
    }
    for (; ids != twos; ids += 16, keys += 2)
        sum += hash_pair(ids, keys);
    if (n % 2)
        sum += (unsigned __int128)(load_u64(ids) + keys[0]) * own[0];
    sum =
        (unsigned __int128)((uint64_t)sum ^ own[1]) * ((uint64_t)(sum >> 64) ^ own[2] ^ (n | kind));
    uint64_t high = (uint64_t)(sum >> 64);
    return (struct callstack_key){(uint64_t)sum ^ high, (uint32_t)high};
}

static struct callstack_key hash_stack(const struct callstacks *c, const uint64_t *ids, uint32_t n)
{
    uint64_t all = 0;
    for (uint32_t i = 0; i < n; i++)
        all |= ids[i];
    if (n <= CALLSTACKS_KEYS)
        return hash_short(c->keys, (const uint8_t *)ids, n,
                          all > FRAME_ADDRESS_MASK ? KIND_CUSTOM : 0);
    XXH128_hash_t h =
        XXH3_128bits_withSecretandSeed(ids, n * sizeof *ids, c->secret, sizeof c->secret, c->seed);
    return (struct callstack_key){h.high64, (uint32_t)(h.low64 >> 32)};
}

/* The slot of the key, or the one where it would be. */
static inline size_t find_slot(const struct callstacks *c, struct callstack_key key)
{
    size_t at = key.tag & c->contents_mask;
    for (;; at = (at + 1) & c->contents_mask) {
        const struct callstack_slot *slot = &c->contents[at];
        if ((slot->check == key.check && slot->tag == key.tag) || slot->id == 0)
            return at;
    }
}

/* The keys of some stacks; those of deeper stacks are invalid. */
static void hash_sent(const uint64_t *keys, const struct sent_callstack *s, size_t n,
                      struct callstack_key *out)
{
    for (const struct callstack_key *end = out + n; out != end; out++, s++)
        *out = hash_short(keys, s->addresses, s->n <= CALLSTACKS_KEYS ? s->n : 0, 0);
}

void callstacks_find(const struct callstacks *c, struct sent_callstack *stacks, size_t n)
{
    struct callstack_key keys[FIND_AT_ONCE];
    for (size_t left = n, some; left; left -= some, stacks += some) {
        some = left < FIND_AT_ONCE ? left : FIND_AT_ONCE;
        hash_sent(c->keys, stacks, some, keys);
        for (size_t i = 0; i < some; i++)
            __builtin_prefetch(&c->contents[keys[i].tag & c->contents_mask]);
        for (size_t i = 0; i < some; i++)
            stacks[i].id =
                stacks[i].n <= CALLSTACKS_KEYS ? c->contents[find_slot(c, keys[i])].id : 0;
    }
}

int callstacks_intern(struct callstacks *c, const uint64_t *frame_ids, uint32_t n, uint32_t *id,
                      bool *fresh, struct err *e)
{
    const struct callstack_key key = hash_stack(c, frame_ids, n);
    size_t at = find_slot(c, key);
    *fresh = false;
    if ((*id = c->contents[at].id))
        return 0;
    if (c->list.len >= (uint64_t)c->limit * 99 / 100)
        return callstacks_take_other(c, id, e);
    if (callstacks_append(c, frame_ids, n, e) != 0)
        return -1;
    *id = (uint32_t)c->list.len;
    *fresh = true;
    c->contents[at] = (struct callstack_slot){.check = key.check, .tag = key.tag, .id = *id};
    /*
     * At most half full, so that most searches end at the first step, which the processor predicts.
     */
    if (++c->contents_count > (c->contents_mask + 1) / 2 && !callstacks_grow_contents(c))
        return err_no_memory(e, "call stacks");
    return 0;
}

/* ---- restoring a snapshot */

int callstacks_restore_node(struct callstacks *c, const struct callstack_node *node, struct err *e)
{
    size_t next = c->nodes.len;
    uint32_t number = callstacks_child(c, node->parent, node->frame);
    if (!number)
        return err_no_memory(e, "call stacks");
    return number == next ? 0 : err_set(e, ERR_INPUT, "a node of a call stack comes twice");
}

/* The frame ids of a stack, innermost first; the caller frees them. */
static uint64_t *stack_ids(const struct callstacks *c, const struct callstack *stack)
{
    uint64_t *ids = malloc((stack->len + (size_t)1) * sizeof *ids);
    uint32_t node = stack->node;
    for (uint32_t i = 0; ids && i < stack->len; i++) {
        ids[i] = c->frames.at[c->nodes.at[node].frame].id;
        node = c->nodes.at[node].parent;
    }
    return ids;
}

int callstacks_restore(struct callstacks *c, const struct callstack *stack, bool findable,
                       struct err *e)
{
    uint64_t *ids = stack_ids(c, stack);
    if (!ids || !pageable_push(c->pageable, &c->list, *stack)) {
        free(ids);
        return err_no_memory(e, "call stacks");
    }
    const struct callstack_key key = hash_stack(c, ids, stack->len);
    size_t at = find_slot(c, key);
    free(ids);
    if (!findable || c->contents[at].id)
        return 0;
    c->contents[at] =
        (struct callstack_slot){.check = key.check, .tag = key.tag, .id = (uint32_t)c->list.len};
    if (++c->contents_count > (c->contents_mask + 1) / 2 && !callstacks_grow_contents(c))
        return err_no_memory(e, "call stacks");
    return 0;
}
