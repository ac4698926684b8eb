#include "client/unwind.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "client/cfi.h"
#include "client/chunks.h"
#include "client/modules.h"
#include "client/python/python.h"
#include "client/stack_bounds.h"
#include "client/stacks.h"

#define ADDRESS_MASK ((UINT64_C(1) << REC_ADDRESS_BITS) - 1)
#define RULE_BITS 16u

/*
 * A rule in the table: the upper 32 bits identify the address, the lower 32 are the rule.
 * Multiplication by an odd number is a bijection on 48 bits: the upper 16 bits of the product are
 * the index in the table, the other 32 the identification. So the word identifies the address of
 * its rule, and is read atomically.
 *
 *   bits 0-2 kind, 3-20 cfa / 8 as a signed number, 21-31 bp / -8, BP_LOST when unknown
 */
#define BP_LOST 0x7ffu

static inline uint64_t scramble(uint64_t address)
{
    return (address * UINT64_C(0x9e3779b97f4b)) & ADDRESS_MASK;
}

/* 0: it does not fit. */
static uint32_t pack(const struct cfi_rule *rule)
{
    int32_t words = rule->cfa / 8;
    uint32_t bp = BP_LOST;
    if (rule->cfa % 8 || words >= 1 << 17 || words < -(1 << 17))
        return 0;
    if (rule->bp == CFI_BP_KEPT)
        bp = 0;
    else if (rule->bp != CFI_BP_LOST && rule->bp % 8 == 0 && rule->bp > -8 * (int32_t)BP_LOST)
        bp = (uint32_t)(rule->bp / -8);
    return (uint32_t)rule->kind | ((uint32_t)words & 0x3ffff) << 3 | bp << 21;
}

static inline int32_t packed_cfa(uint32_t rule)
{
    return ((int32_t)(rule << 11) >> 14) * 8;
}

void unwind_begin(void)
{
    state.rules = chunks_memory(sizeof *state.rules << RULE_BITS);
}

void unwind_renew(void)
{
    int saved = errno;
    /* MADV_DONTNEED zeroes private memory. */
    if (state.rules)
        (void)madvise((void *)state.rules, sizeof *state.rules << RULE_BITS, MADV_DONTNEED);
    errno = saved;
}

static __attribute__((noinline)) uint32_t rule_slow(struct thread *t, uint64_t address)
{
    uint32_t epoch = atomic_load_explicit(&state.epoch, memory_order_acquire);
    struct cfi_table table;
    struct cfi_rule rule = {CFI_FRAME, 0, CFI_BP_KEPT};
    if (modules_table(t, address, &table))
        rule = cfi_find(&table, address);
    uint32_t packed = pack(&rule);
    if (!packed)
        packed = CFI_END | BP_LOST << 21;
    uint64_t mixed = scramble(address);
    if (state.rules && epoch == atomic_load_explicit(&state.epoch, memory_order_acquire))
        atomic_store_explicit(&state.rules[mixed >> 32], mixed << 32 | packed,
                              memory_order_relaxed);
    return packed;
}

static inline uint32_t rule_of(struct thread *t, uint64_t address)
{
    uint64_t mixed = scramble(address);
    if (client_likely(state.rules != NULL)) {
        uint64_t word = atomic_load_explicit(&state.rules[mixed >> 32], memory_order_relaxed);
        if (client_likely(word >> 32 == (mixed & UINT32_MAX) && (word & 7)))
            return (uint32_t)word;
    }
    return rule_slow(t, address);
}

struct cursor {
    uint64_t pc, sp, bp;
    uint64_t low, high; /* bounds of the current stack */
    bool exact;         /* pc is not a return address */
};

static inline uint64_t word_at(uint64_t address)
{
    return *(const uint64_t *)(uintptr_t)address;
}

static inline bool on_stack(const struct cursor *c, uint64_t address)
{
    return address >= c->low && address <= c->high - 8 && (address & 7) == 0;
}

#if defined(__x86_64__)
/* Reads the interrupted registers from the ucontext that the kernel put on the stack. */
static bool leave_signal(const struct thread *t, struct cursor *c)
{
    enum { GREGS = 40, BP = GREGS + 10 * 8, SP = GREGS + 15 * 8, PC = GREGS + 16 * 8 };
    if (!on_stack(c, c->sp) || !on_stack(c, c->sp + PC))
        return false;
    uint64_t context = c->sp;
    uint64_t sp = word_at(context + SP);
    c->pc = word_at(context + PC);
    c->bp = word_at(context + BP);
    c->exact = true;
    if (sp > c->sp && sp < c->high) {
        c->sp = sp;
        return true;
    }
    /* The handler ran on an alternate stack. */
    if (sp < t->stack_low || sp >= t->stack_high)
        return false;
    c->low = sp & ~UINT64_C(7);
    c->high = t->stack_high;
    c->sp = sp;
    return true;
}
#endif

/* Steps from a frame to its caller. False: it is the outermost, or unwinding failed. */
static inline __attribute__((always_inline)) bool step(struct thread *t, struct cursor *c,
                                                       struct walk_frame *f)
{
#if defined(__x86_64__)
    uint32_t rule = rule_of(t, c->exact ? c->pc : c->pc - 1);
    uint64_t cfa, bp_at = 0, bp = c->bp;
    uint32_t kept = rule >> 21, kind = rule & 7;
    /* No jump table: the first two kinds are nearly all. */
    if (client_likely(kind == CFI_FROM_SP)) {
        cfa = c->sp + (uint64_t)(int64_t)packed_cfa(rule);
    } else if (kind == CFI_FROM_BP) {
        cfa = c->bp + (uint64_t)(int64_t)packed_cfa(rule);
    } else if (kind == CFI_FRAME) {
        cfa = c->bp + 16;
        kept = 2;
    } else if (kind == CFI_AT_BP) {
        bp_at = c->bp + (uint64_t)(int64_t)packed_cfa(rule);
        if (!on_stack(c, bp_at))
            return false;
        cfa = word_at(bp_at);
    } else {
        f->ra_at = NULL;
        return kind == CFI_SIGNAL && leave_signal(t, c);
    }
    /* Stacks grow down, so callers are above; an exact frame may not have pushed anything yet. */
    if (cfa <= c->sp || !on_stack(c, cfa - 8))
        return false;
    f->bp_at = NULL;
    if (kept == BP_LOST) {
        bp = 0;
    } else if (kept) {
        bp_at = cfa - 8 * (uint64_t)kept;
        if (!on_stack(c, bp_at))
            return false;
        bp = word_at(bp_at);
        f->bp_at = (const uint64_t *)(uintptr_t)bp_at;
    }
    f->ra_at = (const uint64_t *)(uintptr_t)(cfa - 8);
    c->pc = word_at(cfa - 8);
    c->sp = cfa;
#else
    /* AArch64 frame records: the caller's frame pointer, then the return address. */
    if (!on_stack(c, c->bp) || !on_stack(c, c->bp + 8) || c->bp < c->sp)
        return false;
    uint64_t bp = word_at(c->bp);
    f->bp_at = (const uint64_t *)(uintptr_t)c->bp;
    f->ra_at = f->bp_at + 1;
    c->pc = *f->ra_at & ADDRESS_MASK;
    c->sp = c->bp + 16;
    (void)t;
#endif
    c->bp = bp;
    c->exact = false;
    return c->pc > 4096 && c->pc <= ADDRESS_MASK;
}

/* Whether all words that the last walk read from its frame `i` outwards are unchanged. */
static inline bool still_so(const struct walk *walk, uint32_t i)
{
    for (; i > 0; i--) {
        const struct walk_frame *f = &walk->frames[i];
        if (*f->ra_at != f[-1].pc || (f->bp_at && *f->bp_at != f[-1].bp))
            return false;
    }
    return true;
}

/*
 * Calls stacks_node, whose table all threads share, only for nodes missing in the thread's own
 * cache.
 */
static inline uint32_t node_of(struct thread *t, uint32_t parent, uint64_t pc)
{
    uint64_t mixed = (pc ^ (uint64_t)parent << 29) * UINT64_C(0x9e3779b97f4a7c15);
    struct known_node *k = &t->known[mixed >> (64 - CLIENT_KNOWN_BITS)];
    if (client_likely(k->pc == pc && k->parent == parent))
        return k->node;
    uint32_t node = stacks_node(parent, pc);
    if (node) {
        k->pc = pc;
        k->parent = parent;
        k->node = node;
    }
    return node;
}

/* Numbers the frames from `known` on, outermost first; `node` is the caller of the first. */
static inline uint32_t name_frames(struct thread *t, struct walk_frame *frames, uint32_t count,
                                   uint32_t known, uint32_t node, uint64_t epoch)
{
    for (uint32_t i = known; i < count; i++) {
        uint32_t parent = node | (frames[i].exact ? REC_NODE_EXACT : 0);
        node = node_of(t, parent, frames[i].pc | epoch << REC_ADDRESS_BITS);
        if (!node)
            return 0;
        frames[i].node = node;
    }
    return node;
}

/*
 * Appends frames of a walk, innermost first, after `known` ones; returns their number. Word by
 * word: the frames were just stored so, and a wider load would stall on these stores.
 */
static inline uint32_t keep(struct walk_frame *frames, uint32_t known,
                            const struct walk_frame *fresh, uint32_t count)
{
    for (uint32_t i = count; i-- > 0;) {
        struct walk_frame *to = &frames[known++];
        const struct walk_frame *from = &fresh[i];
        to->pc = from->pc;
        to->sp = from->sp;
        to->bp = from->bp;
        to->ra_at = from->ra_at;
        to->bp_at = from->bp_at;
        to->exact = from->exact;
    }
    return known;
}

/* Whether a signal frame is among those from the cursor on, which the walk leaves out. */
static __attribute__((noinline)) bool signal_beyond(struct thread *t, struct cursor *c)
{
    struct walk_frame f;
    do {
        if (c->exact)
            return true;
    } while (step(t, c, &f));
    return false;
}

/*
 * A walk of which only the first frames are known. Only this function handles signal frames, since
 * their stacks are not kept: returns whether there was one. Beyond the walk's end, only Python's
 * frames (python.h) need the answer.
 */
static __attribute__((noinline)) bool walk_whole(struct thread *t, struct cursor *c,
                                                 const struct walk_frame *first, uint32_t from,
                                                 uint32_t epoch)
{
    struct walk *walk = &t->walk;
    struct walk_frame *frames = walk->scratch;
    uint32_t count = from, depth = state.depth;
    bool signals = false, more = true;
    for (uint32_t i = 0; i < from; i++)
        frames[i] = first[i];
    while (more && count < depth) {
        struct walk_frame *f = &frames[count++];
        *f = (struct walk_frame){.pc = c->pc, .sp = c->sp, .bp = c->bp, .exact = c->exact};
        signals |= c->exact;
        more = step(t, c, f);
    }
    walk->count = keep(walk->frames, 0, frames, count);
    walk->named = walk->mixed_node = 0;
    walk->whole = !more;
    walk->epoch = epoch;
    if (more && atomic_load_explicit(&state.python, memory_order_relaxed))
        signals |= signal_beyond(t, c);
    return signals;
}

/*
 * Whether these frames, innermost first, have the places and addresses of those of the last walk
 * after its first `known` ones.
 */
static inline bool is_as_before(const struct walk *walk, uint32_t known,
                                const struct walk_frame *fresh, uint32_t count)
{
    const struct walk_frame *f = &walk->frames[walk->count];
    if (known + count != walk->count)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        f--;
        if (f->pc != fresh[i].pc || f->sp != fresh[i].sp)
            return false;
    }
    return true;
}

/*
 * Walks until a frame is found in the last walk, which then becomes this one. Frames of both are
 * ordered by stack pointer. False: nothing was found, and the walk is at frame `*count`.
 */
static inline bool walk_known(struct thread *t, struct cursor *c, struct walk_frame *fresh,
                              uint32_t most, uint32_t *count, bool *lost)
{
    struct walk *walk = &t->walk;
    uint32_t i = 0, rest = walk->count; /* frames of the last walk from here outwards */
    for (; i < most; i++) {
        while (rest && walk->frames[rest - 1].sp < c->sp)
            rest--;
        if (!rest)
            break;
        const struct walk_frame *f = &walk->frames[rest - 1];
        if (f->sp == c->sp && f->pc == c->pc && f->bp == c->bp &&
            (walk->whole || i + rest == walk->count) && i + rest <= state.depth &&
            walk->frames[0].sp <= c->high && still_so(walk, rest - 1)) {
            if (walk->mixed_node && !is_as_before(walk, rest, fresh, i))
                walk->mixed_node = 0;
            walk->count = keep(walk->frames, rest, fresh, i);
            walk->named = walk->named < rest ? walk->named : rest;
            return true;
        }
        fresh[i] = (struct walk_frame){.pc = c->pc, .sp = c->sp, .bp = c->bp};
        if (!step(t, c, &fresh[i]) || c->exact) {
            *lost = true;
            break;
        }
    }
    *count = i;
    return false;
}

/* Word by word: wider copies would stall on the preceding stores. */
static inline void begin_walk(struct thread *t, const struct origin *origin, struct cursor *c)
{
    c->pc = origin->pc;
    c->sp = origin->sp;
    c->bp = origin->bp;
    c->exact = false;
    stack_bounds(t, c->sp, &c->low, &c->high);
}

/* The walk of the stack at `origin`. Returns whether it has a signal frame. */
static inline bool walk_stack(struct thread *t, const struct origin *origin, struct cursor *c)
{
    enum { NEW_FRAMES = 8 }; /* new frames to try before the last walk is given up */
    uint32_t epoch = atomic_load_explicit(&state.epoch, memory_order_acquire);
    begin_walk(t, origin, c);
    if (t->walk.count && t->walk.epoch == epoch) {
        struct walk_frame fresh[NEW_FRAMES];
        bool lost = false;
        uint32_t count = 0;
        uint32_t most = state.depth < NEW_FRAMES ? state.depth : NEW_FRAMES;
        if (walk_known(t, c, fresh, most, &count, &lost))
            return false;
        if (!lost && count)
            return walk_whole(t, c, fresh, count, epoch);
        begin_walk(t, origin, c);
    }
    return walk_whole(t, c, NULL, 0, epoch);
}

/* The node that the walk's outermost frame is called from; false: it cannot be numbered. */
static inline bool node_beyond(struct thread *t, bool cut, uint32_t *node)
{
    *node = cut ? node_of(t, 0, REC_PC_CUT) : 0;
    return !cut || *node;
}

static inline uint32_t name_native(struct thread *t)
{
    struct walk *walk = &t->walk;
    uint32_t known = walk->named, node;
    if (known)
        node = walk->frames[known - 1].node;
    else if (!node_beyond(t, !walk->whole, &node))
        return 0;
    node = name_frames(t, walk->frames, walk->count, known, node, walk->epoch);
    walk->named = node ? walk->count : 0;
    return node;
}

/* ---- stacks with Python frames */

/*
 * Puts the Python frames in the place of the interpreter's, outermost first. An activation is in
 * the frame of the C stack whose part of it has the activation's address. Returns the number of
 * frames.
 */
static uint32_t mix(struct walk *walk, uint64_t high)
{
    const struct python *p = atomic_load_explicit(&state.python, memory_order_relaxed);
    const struct python_item *item = walk->items, *items_end = item + walk->item_count;
    uint64_t epoch = (uint64_t)walk->epoch << REC_ADDRESS_BITS;
    struct mixed_frame *to = walk->fresh;
    const struct walk_frame *first = walk->frames;
    uint64_t end = first->ra_at ? (uintptr_t)(first->ra_at + 1) : high;
    /* What is beyond the outermost frame of the walk. */
    while (item < items_end && (item->code || item->address >= end))
        item++;
    for (const struct walk_frame *f = first; f < first + walk->count; f++) {
        bool evaluator = item < items_end && item->address >= f->sp;
        if (!evaluator && f->pc - p->low >= p->high - p->low)
            *to++ = (struct mixed_frame){f->pc | epoch, 0, 0};
        for (; item < items_end && (item->code || item->address >= f->sp); item++) {
            if (item->source)
                *to++ = (struct mixed_frame){item->source, REC_NODE_SOURCE, 0};
        }
    }
    return (uint32_t)(to - walk->fresh);
}

/* The same as name_native for a stack in which Python code runs. 0: none was found. */
static uint32_t name_mixed(struct thread *t, void *python, uint64_t high, bool defines)
{
    struct walk *walk = &t->walk;
    uint32_t count = python_read(t, python, walk->frames[walk->count - 1].sp, high, defines);
    uint32_t node, known = walk->mixed_count, at = 0;
    if (!count || walk->mixed_node)
        return count ? walk->mixed_node : 0;
    uint32_t n = mix(walk, high), left_out = n > state.depth ? n - state.depth : 0;
    if (!node_beyond(t, !walk->whole || walk->items_cut || left_out, &node))
        return 0;
    if (node != walk->mixed_beyond)
        known = 0;
    walk->mixed_beyond = node;
    walk->mixed_count = 0;
    for (uint32_t i = left_out; i < n; i++, at++) {
        const struct mixed_frame *f = &walk->fresh[i];
        struct mixed_frame *to = &walk->mixed[at];
        if (at < known && to->pc == f->pc && to->flags == f->flags) {
            node = to->node;
            continue;
        }
        known = 0;
        node = node_of(t, node | f->flags, f->pc);
        if (!node)
            return 0;
        *to = (struct mixed_frame){f->pc, f->flags, node};
    }
    walk->mixed_count = at;
    return walk->mixed_node = node;
}

uint32_t unwind_stack(struct thread *t, const struct origin *origin, bool defines)
{
    struct cursor c;
    bool signals = walk_stack(t, origin, &c);
    void *python = python_thread();
    uint32_t node = 0;
    /* What a signal handler interrupted may be changing Python's structures. */
    if (client_unlikely(python != NULL) && !signals && t->walk.count)
        node = name_mixed(t, python, c.high, defines);
    if (!node)
        node = name_native(t);
    if (signals || !node)
        t->walk.count = t->walk.named = 0;
    return node;
}
