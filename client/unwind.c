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
#include "client/unwind_machine.h"

#define RULE_BITS 16u
/* What a function may use below its stack pointer, and GCC's tables for a `ret` still refer to. */
#define RED_ZONE 128u

/*
 * A rule in the table: the upper 32 bits identify the address, the lower 32 are the rule.
 * Multiplication by an odd number is a bijection on 48 bits: the upper 16 bits of the product are
 * the index in the table, the other 32 the identification. So the word identifies the address of
 * its rule, and is read atomically.
 */
static inline uint64_t scramble(uint64_t address)
{
    return (address * UINT64_C(0x9e3779b97f4b)) & ADDRESS_MASK;
}

void unwind_begin(void)
{
    unwind_machine_begin();
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
    struct cfi_rule rule = cfi_frame;
    if (modules_table(t, address, &table))
        rule = cfi_find(&table, MACHINE_REGISTERS, address);
    if (rule.kind == CFI_FRAME && unwind_machine_is_signal(t, address + 1))
        rule = (struct cfi_rule){.kind = CFI_SIGNAL};
    uint32_t packed = rule_pack(&rule);
    if (!packed)
        packed = CFI_END;
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
    uint64_t ra;        /* of an exact frame: the register of return addresses, if there is one */
    uint64_t low, high; /* bounds of the current stack */
    bool exact;         /* pc is not a return address */
    bool near;          /* sp may be higher */
};

static inline uint64_t word_at(uint64_t address)
{
    return *(const uint64_t *)(uintptr_t)address;
}

static inline bool on_stack(const struct cursor *c, uint64_t address)
{
    return address >= c->low && address <= c->high - 8 && (address & 7) == 0;
}

/* Reads the interrupted registers from the ucontext that the kernel put on the stack. */
static bool leave_signal(const struct thread *t, struct cursor *c)
{
    uint64_t frame = c->sp;
    if (c->near || !on_stack(c, frame) || !on_stack(c, frame + CONTEXT_PC))
        return false;
    uint64_t sp = word_at(frame + CONTEXT_SP);
    c->pc = word_at(frame + CONTEXT_PC);
    c->bp = word_at(frame + CONTEXT_BP);
    c->ra = machine_address(word_at(frame + CONTEXT_RA));
    c->exact = true;
    if (sp > c->sp && sp < c->high) {
        c->sp = sp;
        return true;
    }
    /* The handler ran on an alternate stack. */
    if (sp < t->stack_low || sp >= t->stack_high)
        return false;
    c->low = sp - t->stack_low > RED_ZONE ? (sp - RED_ZONE) & ~UINT64_C(7) : t->stack_low;
    c->high = t->stack_high;
    c->sp = sp;
    return true;
}

/*
 * The base of a rule from the stack pointer, if that is not known: functions that store a frame
 * record let the frame pointer lead to it. False: this one stores none.
 */
static inline bool base_by_record(const struct cursor *c, uint32_t rule, uint64_t *base)
{
    uint64_t cfa = packed_cfa(rule), ra_at = packed_ra_at(rule, 0, cfa);
    if (packed_bp(rule) == 0 || packed_bp(rule) == PACKED_BP_LOST ||
        packed_bp_at(packed_bp(rule), cfa, ra_at) != ra_at - 8)
        return false;
    *base = c->bp + 8 - ra_at;
    return true;
}

/* Steps from a frame to its caller. False: it is the outermost, or unwinding failed. */
static inline __attribute__((always_inline)) bool step(struct thread *t, struct cursor *c,
                                                       struct walk_frame *f)
{
    uint32_t rule = rule_of(t, c->exact ? c->pc : c->pc - 1);
    uint64_t cfa, base, bp_at = 0, ra_at, bp = c->bp;
    uint32_t kind = rule & 7;
    f->needs_bp = kind != CFI_FROM_SP || c->near;
    /* No jump table: the first two kinds are nearly all. */
    if (client_likely(kind == CFI_FROM_SP)) {
        base = c->sp;
        if (MACHINE_RECORD_ANYWHERE && client_unlikely(c->near) &&
            !base_by_record(c, rule, &base)) {
            rule = rule_pack(&cfi_frame);
            base = c->bp;
        }
    } else if (kind == CFI_FROM_BP || kind == CFI_FRAME) {
        base = c->bp;
    } else if (kind == CFI_AT_BP) {
        base = c->bp;
    } else {
        f->ra_at = NULL;
        return kind == CFI_SIGNAL && leave_signal(t, c);
    }
    cfa = base + packed_cfa(rule);
    if (client_unlikely(kind == CFI_AT_BP)) {
        if (!on_stack(c, cfa))
            return false;
        cfa = word_at(cfa);
    }
    /* Stacks grow down, so callers are above; a leaf function may have no frame. */
    bool kept = packed_ra_kept(rule);
    if (cfa < c->sp || (cfa == c->sp && !kept) || (kept && !c->exact))
        return false;
    ra_at = packed_ra_at(rule, base, cfa);
    if (!kept && !on_stack(c, ra_at))
        return false;
    f->bp_at = NULL;
    if (packed_bp(rule) == PACKED_BP_LOST) {
        bp = 0;
    } else if (packed_bp(rule)) {
        bp_at = packed_bp_at(packed_bp(rule), kind == CFI_AT_BP ? base + 8 : cfa, ra_at);
        if (!on_stack(c, bp_at))
            return false;
        bp = word_at(bp_at);
        f->bp_at = (const uint64_t *)(uintptr_t)bp_at;
    }
    f->ra_at = kept ? NULL : (const uint64_t *)(uintptr_t)ra_at;
    c->pc = kept ? c->ra : machine_address(word_at(ra_at));
    c->sp = cfa;
    c->bp = bp;
    c->exact = false;
    c->near = MACHINE_RECORD_ANYWHERE && (rule & 7) == CFI_FRAME;
    return c->pc > 4096 && c->pc <= ADDRESS_MASK;
}

/* Whether all words that the last walk needs from its frame `i` outwards are unchanged. */
static inline bool still_so(const struct walk *walk, uint32_t i)
{
    const struct walk_word *w = walk->words + walk->frames[i].words;
#pragma GCC unroll 4
    while (w > walk->words) {
        w--;
        if (machine_address(*w->at) != w->value)
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

static inline void put_word(struct walk *walk, uint32_t *count, const uint64_t *at, uint64_t value)
{
    struct walk_word *w = &walk->words[(*count)++];
    w->at = at;
    w->value = machine_address(value);
}

/*
 * Appends the innermost `count` frames, which are in the walk's scratch, after its `known` ones.
 * Word by word: the frames were just stored so, and a wider load would stall on these stores.
 *
 * Most functions save bp only because they use the register for something else. Such a word need
 * not stay as it is.
 */
static inline void keep(struct walk *walk, uint32_t known, uint32_t count)
{
    bool needs_bp = known && walk->frames[known - 1].needs_bp;
    uint32_t words = known ? walk->frames[known - 1].words : 0;
    walk->count = known + count;
    for (uint32_t i = count; i-- > 0; known++) {
        struct walk_frame *to = &walk->frames[known];
        const struct walk_frame *from = &walk->scratch[i];
        if (known)
            put_word(walk, &words, from->ra_at, to[-1].pc);
        if (known && needs_bp && from->bp_at)
            put_word(walk, &words, from->bp_at, to[-1].bp);
        needs_bp = from->needs_bp || (needs_bp && !from->bp_at);
        to->pc = from->pc;
        to->sp = from->sp;
        to->bp = from->bp;
        to->words = words;
        to->exact = from->exact;
        to->needs_bp = needs_bp;
    }
}

/*
 * Whether a signal frame is among those from the cursor on, which the walk leaves out. Counts those
 * of Python's evaluator.
 */
static __attribute__((noinline)) bool signal_beyond(struct thread *t, struct cursor *c,
                                                    const struct python *p)
{
    struct walk_frame f;
    do {
        if (c->exact)
            return true;
        t->walk.evaluators_beyond += python_is_evaluator(p, c->pc);
    } while (step(t, c, &f));
    return false;
}

/*
 * A walk of which only the first `from` frames are known, in walk->scratch. Only this function
 * handles signal frames, since their stacks are not kept: returns whether there was one. Beyond the
 * walk's end, only Python's frames (python.h) need the answer.
 */
static __attribute__((noinline)) bool walk_whole(struct thread *t, struct cursor *c, uint32_t from,
                                                 uint32_t depth, uint32_t epoch)
{
    struct walk *walk = &t->walk;
    struct walk_frame *frames = walk->scratch;
    uint32_t count = from;
    bool signals = false, more = true;
    while (more && count < depth) {
        struct walk_frame *f = &frames[count++];
        *f = (struct walk_frame){.pc = c->pc, .sp = c->sp, .bp = c->bp, .exact = c->exact};
        signals |= c->exact;
        more = step(t, c, f);
    }
    keep(walk, 0, count);
    walk->named = 0;
    python_stack_changed(walk);
    walk->last.natives = 0;
    walk->whole = !more;
    walk->end = more ? c->sp : 0;
    walk->epoch = epoch;
    walk->evaluators_beyond = 0;
    const struct python *p = atomic_load_explicit(&state.python, memory_order_relaxed);
    if (more && p)
        signals |= signal_beyond(t, c, p);
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
 * Whether the walk's first `count` frames lead to the innermost Python function, as in the last
 * mixed stack.
 */
static inline bool lead_to_innermost(const struct walk *walk, uint32_t count)
{
    uint32_t n = walk->activation_count;
    if (!n || walk->last.activations != n)
        return false;
    const struct python_activation *a = &walk->activations[n - 1];
    /* The evaluator's own frame may be at another call. */
    return a->natives && a->natives <= count + 1 && a->natives <= walk->count &&
           walk->frames[a->natives - 1].sp <= a->address;
}

/*
 * The walk's frames after the first `from` are others than in the last walk. Where all of them run
 * within the innermost Python function, and all in the interpreter, the mixed stack has none.
 */
static void natives_changed(struct walk *walk, const struct python *p, uint32_t from)
{
    walk->last.inner = UINT32_MAX; /* mix: not the same, even if only shorter */
    if (walk->last.natives > from)
        walk->last.natives = from;
    if (!lead_to_innermost(walk, from)) {
        python_stack_changed(walk);
        return;
    }
    uint32_t i = walk->activations[walk->activation_count - 1].natives;
    while (i < walk->count && python_is_interpreter(p, walk->frames[i].pc))
        i++;
    walk->last.node = 0;
    walk->serial = i == walk->count ? walk->bare : ++walk->serials;
}

/*
 * Walks until a frame is found in the last walk, which then becomes this one. Frames of both are
 * ordered by stack pointer. False: nothing was found, and the walk is at frame `*count`.
 */
static inline bool walk_known(struct thread *t, struct cursor *c, uint32_t depth, uint32_t *count,
                              bool *lost)
{
    struct walk *walk = &t->walk;
    const struct python *p = atomic_load_explicit(&state.python, memory_order_relaxed);
    struct walk_frame *fresh = walk->scratch;
    uint32_t i = 0, rest = walk->count; /* frames of the last walk from here outwards */
    for (; i < depth; i++) {
        while (rest && walk->frames[rest - 1].sp < c->sp)
            rest--;
        if (!rest)
            break;
        const struct walk_frame *f = &walk->frames[rest - 1];
        if (f->sp == c->sp && f->pc == c->pc && (f->bp == c->bp || !f->needs_bp) &&
            (walk->whole ? i + rest <= depth : i + rest == walk->count && walk->count == depth) &&
            walk->frames[0].sp <= c->high && still_so(walk, rest - 1)) {
            bool changed = p && !is_as_before(walk, rest, fresh, i);
            keep(walk, rest, i);
            if (changed)
                natives_changed(walk, p, rest);
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
    c->sp = origin->sp & ~UINT64_C(1);
    c->bp = origin->bp;
    c->exact = false;
    c->near = MACHINE_RECORD_ANYWHERE && (origin->sp & 1);
    stack_bounds(t, c->sp, &c->low, &c->high);
}

/* The walk of at most `depth` frames at `origin`. Returns whether it has a signal frame. */
static inline bool walk_stack(struct thread *t, const struct origin *origin, struct cursor *c,
                              uint32_t depth)
{
    uint32_t epoch = atomic_load_explicit(&state.epoch, memory_order_acquire);
    begin_walk(t, origin, c);
    if (t->walk.count && t->walk.epoch == epoch) {
        bool lost = false;
        uint32_t count = 0;
        if (walk_known(t, c, depth, &count, &lost))
            return false;
        if (!lost && count)
            return walk_whole(t, c, count, depth, epoch);
        begin_walk(t, origin, c);
    }
    return walk_whole(t, c, 0, depth, epoch);
}

/* The node that the walk's outermost frame is called from; false: it cannot be numbered. */
static inline bool node_beyond(struct thread *t, bool cut, uint32_t *node)
{
    *node = cut ? node_of(t, 0, REC_PC_CUT) : 0;
    return !cut || *node;
}

/* How many of a stack's frames are left out, outermost ones. */
static inline uint32_t too_many(uint32_t count)
{
    return count > state.depth ? count - state.depth : 0;
}

static inline uint32_t name_native(struct thread *t)
{
    struct walk *walk = &t->walk;
    uint32_t left_out = too_many(walk->count), known = walk->named, node;
    if (client_likely(known > left_out && left_out == walk->left_out))
        node = walk->frames[known - 1].node;
    else if (!node_beyond(t, !walk->whole || left_out, &node))
        return 0;
    else
        known = left_out;
    walk->left_out = left_out;
    node = name_frames(t, walk->frames, walk->count, known, node, walk->epoch);
    walk->named = node ? walk->count : 0;
    return node;
}

/* ---- stacks with Python frames */

/* A mixed stack in progress. */
struct mixer {
    struct walk *walk;
    uint32_t natives, activation; /* those not reached yet begin with these */
    uint32_t count;               /* frames of the mixed stack */
};

static inline void put_mixed(struct mixer *m, uint64_t pc, uint32_t flags)
{
    struct walk *walk = m->walk;
    struct mixed_frame *to = &walk->mixed[m->count];
    if (to->pc != pc || to->flags != flags) {
        *to = (struct mixed_frame){pc, flags, 0};
        if (walk->last.named > m->count)
            walk->last.named = m->count;
    }
    m->count++;
}

/* The Python frames of an activation, from one of them inwards. */
static inline void put_items(struct mixer *m, uint32_t activation, uint32_t from)
{
    struct walk *walk = m->walk;
    uint32_t end = activation + 1 < walk->activation_count ? walk->activations[activation + 1].first
                                                           : walk->item_count;
    for (uint32_t i = from; i < end; i++) {
        struct python_item *item = &walk->items[i];
        if (item->source)
            put_mixed(m, item->source, REC_NODE_SOURCE);
        item->mixed = m->count;
    }
}

/* Begins with what is as it was when the last mixed stack was made. */
static inline void begin_mixing(struct mixer *m, uint64_t high)
{
    struct walk *walk = m->walk;
    const struct walk_mixed *last = &walk->last;
    struct python_activation *a = walk->activations;
    uint32_t i = last->activations;
    while (i > 0 && a[i - 1].natives > last->natives)
        i--;
    if (i > 0 && a[i - 1].natives) {
        uint32_t first = a[i - 1].first, end = i < last->activations ? a[i].first : last->items;
        bool some = end > first;
        *m = (struct mixer){walk, a[i - 1].natives, i,
                            some ? walk->items[end - 1].mixed : a[i - 1].mixed};
        put_items(m, i - 1, some ? end : first);
        return;
    }
    /* What is beyond the outermost frame of the walk. */
    uint64_t beyond = walk->end ? walk->end : high;
    *m = (struct mixer){.walk = walk};
    while (m->activation < walk->activation_count && a[m->activation].address >= beyond)
        a[m->activation++].natives = 0;
}

/* The next native frame of the walk, if it is not one of the interpreter's image. */
static inline void put_native(struct mixer *m, bool evaluator)
{
    const struct python *p = atomic_load_explicit(&state.python, memory_order_relaxed);
    const struct walk_frame *f = &m->walk->frames[m->natives++];
    if (!evaluator && !python_is_interpreter(p, f->pc))
        put_mixed(m, f->pc | (uint64_t)m->walk->epoch << REC_ADDRESS_BITS, 0);
}

/*
 * Puts the Python frames in the place of the interpreter's, outermost first. An activation is in
 * the frame of the C stack whose part of it has the activation's address.
 */
static void mix(struct walk *walk, uint64_t high)
{
    struct walk_mixed *last = &walk->last;
    struct mixer m = {.walk = walk};
    begin_mixing(&m, high);
    while (m.activation < walk->activation_count) {
        struct python_activation *a = &walk->activations[m.activation];
        if (m.natives && a->address >= walk->frames[m.natives - 1].sp) {
            a->natives = m.natives;
            a->mixed = m.count;
            put_items(&m, m.activation++, a->first);
        } else if (m.natives < walk->count) {
            put_native(&m, a->address >= walk->frames[m.natives].sp);
        } else {
            break;
        }
    }
    uint32_t inner = m.count;
    bool same = inner == last->inner && last->natives == walk->count &&
                last->activations == walk->activation_count;
    while (!same && m.natives < walk->count)
        put_native(&m, false);
    last->inner = inner;
    last->count = same ? last->count : m.count;
    if (last->count == inner)
        walk->serial = walk->bare;
    last->natives = walk->count;
    last->items = walk->item_count;
    last->activations = m.activation;
    if (last->named > last->count)
        last->named = last->count;
}

/* The same as name_native for a stack in which Python code runs. 0: none was found. */
static uint32_t name_mixed(struct thread *t, void *python, uint64_t high, bool defines)
{
    struct walk *walk = &t->walk;
    struct walk_mixed *last = &walk->last;
    bool read = python_read(t, python, walk->frames[walk->count - 1].sp, high, defines);
    if (!read || client_likely(last->node))
        return read ? last->node : 0;
    mix(walk, high);
    uint32_t n = last->count, left_out = too_many(n), node;
    if (!node_beyond(t, !walk->whole || walk->items_cut || left_out, &node))
        return 0;
    if (node != last->beyond || left_out != last->left_out || last->named < left_out)
        last->named = left_out;
    last->beyond = node;
    last->left_out = left_out;
    if (last->named > left_out)
        node = walk->mixed[last->named - 1].node;
    for (; last->named < n; last->named++) {
        struct mixed_frame *f = &walk->mixed[last->named];
        node = node_of(t, node | f->flags, f->pc);
        if (!node)
            return 0;
        f->node = node;
    }
    return python_stack_named(walk, node);
}

uint32_t unwind_stack(struct thread *t, const struct origin *origin, bool defines)
{
    struct cursor c;
    void *python = python_thread();
    /* Python frames replace several native ones each. */
    bool signals = walk_stack(t, origin, &c, python ? CLIENT_NATIVES : state.depth);
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
