/*
 * Reads the activations of CPython's evaluator and their frames.
 *
 * A reading follows the chain of frames from the innermost one outwards. At each frame that the
 * thread's last reading has, too, it asks whether all from there on is unchanged (is_unchanged),
 * and ends if so. Usually that is the first or the second frame.
 */

#include "client/python/python.h"

#define FRAMES_MOST 100000u /* that are followed to the end of an activation */
#define STATE_BYTES 512u    /* a thread state has at least */
#define BYTES_LEAST 32u     /* a cframe has at least, and the frame of an activation */
#define GENERATOR 1u        /* the owner of a generator's frame */
#define NOT_BEGUN 16u       /* frames that a call stack leaves out, at most: nearly always none */

/* Where a reading goes on. */
struct place {
    uint64_t frame, cframe;
    uint64_t low; /* callers are on the C stack from here on */
};

struct reader {
    struct thread *t;
    struct python *p;
    struct walk *walk;
    struct place at;
    uint64_t high; /* end of the C stack */
    /* Of the last reading, the outermost frames that were not met yet, and their activations. */
    uint32_t rest, rest_activations;
    uint32_t joins;              /* so many outermost frames may be as in the last reading */
    uint32_t count, activations; /* that differ from it, innermost first */
    bool joined;                 /* all others are as in the last reading */
    bool defines, cut;
};

static inline uint64_t word_at(uint64_t address)
{
    return *(const uint64_t *)(uintptr_t)address;
}

static inline bool is_pointer(uint64_t address)
{
    return address > 65535 && address < PYTHON_ADDRESS_END && (address & 7) == 0;
}

/* Whether a cframe, or the frame of an activation, may be there on the C stack. */
static inline bool is_within(uint64_t address, uint64_t low, uint64_t high)
{
    return (address & 7) == 0 && address >= low && address < high - BYTES_LEAST;
}

static inline bool is_last(const struct python_layout *l, uint64_t frame)
{
    return *(const uint8_t *)(uintptr_t)(frame + l->last) == l->last_value;
}

static inline uint64_t code_at(const struct python_layout *l, uint64_t frame)
{
    return word_at(frame + l->code) & ~(uint64_t)l->code_tags;
}

/* What a frame runs. */
static inline uint64_t instruction_at(const struct python_layout *l, uint64_t frame)
{
    uint64_t instruction = word_at(frame + l->instruction);
    return l->bytecode ? instruction : (uint32_t)instruction;
}

/* ---- the last reading */

/* Goes on to the last frame of the activation. Returns how far that was. */
static __attribute__((noinline)) unsigned skip_to_last(const struct python_layout *l,
                                                       uint64_t *frame)
{
    unsigned n = 0;
    for (; n < FRAMES_MOST && is_pointer(*frame) && !is_last(l, *frame); n++)
        *frame = word_at(*frame + l->previous);
    return n;
}

/*
 * Whether the frame at `address` is the item, where it was then. *frame: the same address, but the
 * compiler does not know that: so the processor need not wait for the load of `address`.
 */
static inline __attribute__((always_inline)) bool
is_item(const struct python_item *item, uint64_t address, uint64_t instruction, uint64_t *frame)
{
    uint64_t same = item->address;
    if (address != same)
        return false;
    __asm__("" : "+r"(same));
    *frame = same;
    return word_at(same + instruction) == item->instruction;
}

/*
 * Whether the frames from *frame on are those of the last reading from the one before `*item` to
 * `end`; there is one. *item: the frame where it is not so, or `end`; *frame: the one after that.
 */
static inline __attribute__((always_inline)) bool pass_frames(const struct python_layout *l,
                                                              const struct python_item **item,
                                                              const struct python_item *end,
                                                              uint64_t *frame)
{
    uint64_t previous = l->previous, instruction = l->instruction, at = *frame, next;
    const struct python_item *i = *item - 1;
    __asm__("" : "+r"(previous), "+r"(instruction));
    bool same = is_item(i, at, instruction, &at);
    next = at;
    while (same && i - end >= 4 && is_item(i - 1, word_at(next + previous), instruction, &next) &&
           is_item(i - 2, word_at(next + previous), instruction, &next) &&
           is_item(i - 3, word_at(next + previous), instruction, &next) &&
           is_item(i - 4, word_at(next + previous), instruction, &next)) {
        i -= 4;
        at = next;
    }
    while (same && i > end)
        same = is_item(--i, word_at(at + previous), instruction, &at);
    *item = i;
    if (same)
        *frame = word_at(at + previous);
    return same;
}

/*
 * Whether the activations of the last reading before `end`, of which there is one, are on this part
 * of the C stack. They are in the order of their addresses.
 */
static inline bool are_within(const struct walk *walk, const struct python_activation *end,
                              uint64_t low, uint64_t high)
{
    return end[-1].address >= low && walk->activations->address < high - BYTES_LEAST;
}

/*
 * Whether all from that place on is as in the last reading, from its frame before `*item` and its
 * activation before `a` outwards. *item: the frame where it is not, or the one after.
 *
 * As many frames as a call stack shows are compared: those beyond are compared once they are shown.
 * Frames and activations are two chains before 3.12: where both are as before, each activation runs
 * the same frames.
 */
static inline __attribute__((always_inline)) bool
follow(const struct walk *walk, const struct python_layout *l, const struct python_item **item,
       const struct python_activation *a, const struct place *from, enum python_chain chain)
{
    const struct python_item *shown = walk->items;
    const struct python_activation *inner = a;
    uint64_t frame = from->frame, cframe = from->cframe;
    bool beyond = false;
    if (client_unlikely(*item - shown > state.depth + NOT_BEGUN))
        shown = *item - (state.depth + NOT_BEGUN);
    while (a-- > walk->activations) {
        const struct python_item *end = walk->items + a->first;
        uint64_t address = a->address, same = address;
        __asm__("" : "+r"(same));
        if (chain == PYTHON_CFRAMES) {
            if (address != cframe || (a + 1 != inner && word_at(same + l->frame) != frame))
                return false;
            end = end < shown ? shown : end;
            cframe = word_at(same + l->cframe_previous);
        }
        if (*item > end && !pass_frames(l, item, end, &frame))
            return false;
        if (chain == PYTHON_ENTRIES) {
            if (client_unlikely(walk->items_cut) && a == walk->activations)
                beyond = skip_to_last(l, &frame) > 0;
            if (address != frame)
                return false;
            frame = word_at(same + l->previous);
        }
        if (client_unlikely(shown > walk->items) && *item <= shown)
            return true;
    }
    return (beyond || frame) == walk->items_cut;
}

/*
 * The same before 3.11, where each frame is an activation. All are compared, since a frame that
 * runs nowhere shows only in their number.
 */
static inline __attribute__((always_inline)) bool
follow_single(const struct walk *walk, const struct python_layout *l,
              const struct python_item **item, const struct python_activation *a,
              const struct place *at, enum python_chain chain)
{
    const uint64_t previous = l->previous, instruction = l->instruction, code = l->code;
    const uint64_t cframe_previous = l->cframe_previous;
    uint64_t frame = at->frame, cframe = at->cframe;
    while (*item > walk->items) {
        uint64_t guess = (--*item)->address, address = guess;
        __asm__("" : "+r"(address));
        /* A number does not imply the code object, as an address does. */
        if (guess != frame || word_at(address + code) != (*item)->code ||
            *(const uint32_t *)(uintptr_t)(address + instruction) != (*item)->instruction)
            return false;
        frame = word_at(address + previous);
        if (chain == PYTHON_PAIRS) {
            guess = address = (--a)->address;
            __asm__("" : "+r"(address));
            if (guess != cframe)
                return false;
            cframe = word_at(address + cframe_previous);
        }
    }
    return !frame;
}

/*
 * The same from the reading's `frames` and `activations` outermost ones on. *joins: if not, how
 * many frames may be as before.
 */
static inline __attribute__((always_inline)) bool
is_like_last(const struct walk *walk, const struct python_layout *l, uint32_t frames,
             uint32_t activations, const struct place *at, uint64_t high, uint32_t *joins,
             enum python_chain chain)
{
    const struct python_item *item = walk->items + frames;
    const struct python_activation *a = walk->activations + activations;
    bool single = chain == PYTHON_PAIRS || chain == PYTHON_NATIVES;
    bool same = (chain == PYTHON_NATIVES || !activations || are_within(walk, a, at->low, high)) &&
                (single ? follow_single(walk, l, &item, a, at, chain)
                        : follow(walk, l, &item, a, at, chain));
    if (!same)
        *joins = (uint32_t)(item - walk->items);
    return same;
}

/* Looks for the frame in the last reading; true: it is the innermost one of those not met yet. */
static bool find_old(struct reader *r, uint64_t address)
{
    enum { NEAR = 8 };
    for (uint32_t i = 0; i < NEAR && i < r->rest; i++) {
        if (r->walk->items[r->rest - 1 - i].address == address) {
            r->rest -= i;
            return true;
        }
    }
    return false;
}

/*
 * Whether the reading ends, because all from here on is as in the last one. `natives`: for
 * PYTHON_NATIVES, frames of the walk up to the evaluator's that runs this one.
 */
static inline __attribute__((always_inline)) bool join(struct reader *r, enum python_chain chain,
                                                       uint32_t natives)
{
    const struct walk *walk = r->walk;
    bool single = chain == PYTHON_PAIRS || chain == PYTHON_NATIVES;
    if (!find_old(r, r->at.frame) || r->rest > r->joins)
        return false;
    uint32_t *a = &r->rest_activations, count = r->count + r->rest, joins = r->joins;
    while (*a && walk->activations[*a - 1].first >= r->rest)
        --*a;
    if (count > CLIENT_ITEMS || r->activations + *a > CLIENT_ITEMS ||
        (walk->items_cut && (single || count < state.depth)))
        return false;
    if (chain == PYTHON_NATIVES &&
        (!*a || *a > walk->last.activations || natives > walk->last.natives ||
         walk->activations[*a - 1].natives != natives))
        return false;
    r->joined = is_like_last(walk, &r->p->layout, r->rest, *a, &r->at, r->high, &joins, chain);
    r->joins = joins;
    return r->joined;
}

/* ---- frames */

static bool find_source(struct thread *t, struct python *p, bool defines, struct python_item *item)
{
    uint64_t mixed = (item->code ^ item->instruction << 20) * UINT64_C(0x9e3779b97f4a7c15);
    struct python_cell *cell = &p->known[mixed >> (64 - PYTHON_CODES_BITS)];
    uint32_t generation =
        atomic_load_explicit(python_generation(p, item->code), memory_order_relaxed);
    struct python_entry entry = {{item->instruction, item->code}, generation, 0};
    if (client_likely(python_cell_find(cell, &entry))) {
        item->source = entry.source;
        return true;
    }
    bool generator = *(const uint8_t *)(uintptr_t)(item->address + p->layout.owner) == GENERATOR;
    if (!defines || !python_describe(t, p, item->code, item->instruction, generator, &item->source))
        return false;
    entry.source = item->source;
    python_cell_put(cell, &entry);
    return true;
}

/* Takes a frame as it is, without its source. Word by word, see copy_item. */
static inline void fill_item(struct python_item *item, const struct python_layout *l,
                             uint64_t frame)
{
    item->address = frame;
    __asm__("");
    item->instruction = instruction_at(l, frame);
    __asm__("");
    item->code = code_at(l, frame);
}

/* False: the frame cannot be described. */
static inline bool take_frame(struct reader *r, uint64_t frame)
{
    struct python_item *item = &r->walk->fresh_items[r->count++];
    fill_item(item, &r->p->layout, frame);
    const struct python_item *old = r->walk->items + r->rest;
    if (!r->rest || (--old)->address != frame)
        return find_source(r->t, r->p, r->defines, item);
    r->rest--;
    item->source = old->source;
    return (old->code == item->code && old->instruction == item->instruction) ||
           find_source(r->t, r->p, r->defines, item);
}

/* An activation, after its frames; `address`: on the C stack. */
static inline void take_activation(struct reader *r, uint64_t address)
{
    struct python_activation *a = &r->walk->fresh_activations[r->activations++];
    a->address = address;
    a->first = r->count;
    r->at.low = address + 8;
}

/* ---- chains */

/* Frames of a new reading at most: if there are more, later ones may be deeper or less deep. */
static inline uint32_t items_most(void)
{
    return (state.depth + CLIENT_ITEMS) / 2;
}

/*
 * Takes the frames of one activation. *last: since 3.12, the last frame, which is that of the
 * activation. False: something is wrong.
 */
static inline __attribute__((always_inline)) bool
take_frames(struct reader *r, enum python_chain chain, uint64_t *last)
{
    const struct python_layout *l = &r->p->layout;
    for (unsigned i = 0; i < FRAMES_MOST; i++) {
        if (join(r, chain, 0))
            return true;
        uint64_t frame = r->at.frame;
        if (!is_pointer(frame))
            return false;
        bool ends = is_last(l, frame), room = r->count < items_most();
        if (chain == PYTHON_CFRAMES || !ends) {
            if (room && !take_frame(r, frame))
                return false;
            r->cut |= !room;
        }
        *last = frame;
        r->at.frame = word_at(frame + l->previous);
        /* A cframe has the activation's address, so its other frames need no visit. */
        if (ends || (chain == PYTHON_CFRAMES && !room))
            return true;
    }
    return false;
}

/* 3.11: a cframe on the C stack has the running frame of each activation. */
static __attribute__((noinline)) bool read_cframes(struct reader *r)
{
    const struct python_layout *l = &r->p->layout;
    uint64_t last;
    /* The outermost one is in the thread state. */
    while (!r->cut && is_within(r->at.cframe, r->at.low, r->high)) {
        uint64_t cframe = r->at.cframe;
        r->at.frame = word_at(cframe + l->frame);
        /* One that runs nothing: greenlet begins a stack with it. */
        if (r->at.frame && r->count >= items_most()) {
            r->cut = true;
            return true;
        }
        if (r->at.frame) {
            if (!take_frames(r, PYTHON_CFRAMES, &last))
                return false;
            if (r->joined)
                return true;
            take_activation(r, cframe);
        }
        r->at.low = cframe + 8;
        r->at.cframe = word_at(cframe + l->cframe_previous);
    }
    return true;
}

/*
 * 3.10: cframes on the C stack and frames are two lists, whose items correspond. Code that makes
 * frames without cframes is noticed by their number.
 */
static __attribute__((noinline)) bool read_pairs(struct reader *r, uint64_t state_at)
{
    const struct python_layout *l = &r->p->layout;
    for (unsigned i = 0; r->at.frame && i < FRAMES_MOST; i++) {
        uint64_t frame = r->at.frame, cframe = r->at.cframe;
        if (!is_pointer(frame))
            return false;
        /* Beyond is another stack, or the end: the outermost cframe is in the thread state. */
        if (!is_within(cframe, r->at.low, r->high))
            return cframe - state_at >= STATE_BYTES;
        if (r->count < CLIENT_ITEMS) {
            if (join(r, PYTHON_PAIRS, 0))
                return true;
            if (!take_frame(r, frame))
                return false;
            take_activation(r, cframe);
        } else {
            r->cut = true;
        }
        r->at.low = cframe + 8;
        r->at.cframe = word_at(cframe + l->cframe_previous);
        r->at.frame = word_at(frame + l->previous);
    }
    return true;
}

/*
 * 3.8 and 3.9: frames and native frames of the evaluator are two lists, whose items correspond. A
 * part of the evaluator that the compiler moved elsewhere is noticed by their number.
 */
static __attribute__((noinline)) bool read_natives(struct reader *r)
{
    const struct python_layout *l = &r->p->layout;
    const struct walk *walk = r->walk;
    for (uint32_t i = walk->count; i-- > 0;) {
        uint64_t frame = r->at.frame;
        if (!python_is_evaluator(r->p, walk->frames[i].pc))
            continue;
        if (!is_pointer(frame))
            return false;
        if (r->count < CLIENT_ITEMS) {
            if (join(r, PYTHON_NATIVES, i + 1))
                return true;
            if (!take_frame(r, frame))
                return false;
            take_activation(r, walk->frames[i].sp);
        } else {
            r->cut = true;
        }
        r->at.frame = word_at(frame + l->previous);
    }
    uint64_t frame = r->at.frame;
    uint32_t beyond = 0;
    for (; frame && beyond < walk->evaluators_beyond; beyond++) {
        if (!is_pointer(frame))
            return false;
        frame = word_at(frame + l->previous);
    }
    r->cut |= beyond > 0;
    return !frame && beyond == walk->evaluators_beyond;
}

/* Later versions: each activation ends with a frame of no code, which is itself on the C stack. */
static __attribute__((noinline)) bool read_entries(struct reader *r)
{
    uint64_t last = 0;
    while (r->at.frame) {
        uint32_t met = r->count;
        if (met >= items_most() || r->activations >= items_most()) {
            r->cut = true;
            break;
        }
        if (!take_frames(r, PYTHON_ENTRIES, &last))
            return false;
        if (r->joined)
            break;
        if (!is_within(last, r->at.low, r->high)) {
            r->count = met;
            break;
        }
        take_activation(r, last);
    }
    return true;
}

/* ---- a reading */

static inline void lower(uint32_t *value, uint32_t most)
{
    if (*value > most)
        *value = most;
}

/* Word by word: the item was just stored so, and a wider load would stall on these stores. */
static inline void copy_item(struct python_item *to, const struct python_item *from)
{
    to->address = from->address;
    __asm__("");
    to->instruction = from->instruction;
    __asm__("");
    to->code = from->code;
    to->source = from->source;
}

/* Makes the reading the walk's last one. */
static void keep(const struct reader *r)
{
    struct walk *walk = r->walk;
    uint32_t kept = r->joined ? r->rest : 0;
    uint32_t activations = r->joined ? r->rest_activations : 0;
    bool cut = r->joined ? walk->items_cut : r->cut;
    if (r->count || r->activations || kept != walk->item_count ||
        activations != walk->activation_count || cut != walk->items_cut)
        python_stack_changed(walk);
    lower(&walk->last.items, kept);
    lower(&walk->last.activations, activations);
    for (uint32_t i = 0; i < r->count; i++)
        copy_item(&walk->items[kept + r->count - 1 - i], &walk->fresh_items[i]);
    for (uint32_t i = 0; i < r->activations; i++) {
        struct python_activation *to = &walk->activations[activations + r->activations - 1 - i];
        to->address = walk->fresh_activations[i].address;
        to->first = kept + r->count - walk->fresh_activations[i].first;
    }
    walk->item_count = kept + r->count;
    walk->activation_count = activations + r->activations;
    walk->items_cut = cut;
}

/* Forgets the last reading. */
static void drop(struct walk *walk)
{
    python_stack_changed(walk);
    walk->item_count = walk->activation_count = 0;
    walk->items_cut = false;
    walk->last.items = walk->last.activations = 0;
}

/* Where the thread's frames begin; false: its structures are not what they should be. */
static inline bool begin_place(const struct python_layout *l, uint64_t at, uint64_t low,
                               struct place *place, enum python_chain chain)
{
    place->low = low;
    place->cframe = l->cframe ? word_at(at + l->cframe) : at;
    if (client_unlikely(!is_pointer(place->cframe)))
        return false;
    place->frame = word_at((chain == PYTHON_PAIRS ? at : place->cframe) + l->frame);
    return true;
}

/* The same as python_read_state if something has changed since the last reading. */
static __attribute__((noinline)) bool read_changed(struct thread *t, struct python *p, uint64_t at,
                                                   uint64_t low, uint64_t high, bool defines)
{
    enum python_chain chain = p->layout.chain;
    struct walk *walk = &t->walk;
    uint32_t freed = atomic_load_explicit(&p->codes_freed, memory_order_relaxed);
    bool known = walk->codes_freed == freed;
    walk->codes_freed = freed;
    struct reader r = {.t = t,
                       .p = p,
                       .walk = walk,
                       .high = high,
                       .rest = known ? walk->item_count : 0,
                       .rest_activations = walk->activation_count,
                       .joins = known ? walk->joins : 0,
                       .defines = defines};
    bool read = begin_place(&p->layout, at, low, &r.at, chain);
    read = read && (chain == PYTHON_CFRAMES   ? read_cframes(&r)
                    : chain == PYTHON_PAIRS   ? read_pairs(&r, at)
                    : chain == PYTHON_NATIVES ? read_natives(&r)
                                              : read_entries(&r));
    if (read)
        keep(&r);
    else
        drop(walk);
    return read;
}

/*
 * The usual change: only the innermost frame has gone on, in the same function, or it calls other
 * native functions.
 */
static __attribute__((noinline)) bool step(struct thread *t, struct python *p,
                                           struct python_item *item, bool defines)
{
    struct walk *walk = &t->walk;
    const struct walk_step *known = python_step(walk, item->instruction);
    bool same = known->instruction == item->instruction && known->serial == walk->serial;
    lower(&walk->last.items, walk->item_count - 1);
    walk->last.node = same ? known->node : 0;
    if (same)
        item->source = known->source;
    else if (!find_source(t, p, defines, item))
        drop(walk);
    return walk->item_count > 0;
}

/* The same as python_read_state, for one chain. */
static inline __attribute__((always_inline)) bool read_state(struct thread *t, struct python *p,
                                                             uint64_t at, uint64_t low,
                                                             uint64_t high, bool defines,
                                                             enum python_chain chain)
{
    const struct python_layout *l = &p->layout;
    struct walk *walk = &t->walk;
    struct place place;
    bool known = walk->codes_freed == atomic_load_explicit(&p->codes_freed, memory_order_relaxed);
    walk->joins = 0;
    /* Before 3.11, more frames than items are to be counted, and native frames lead to some. */
    if (client_unlikely(!known || !begin_place(l, at, low, &place, chain) || !walk->item_count) ||
        (chain == PYTHON_PAIRS && walk->items_cut) ||
        (chain == PYTHON_NATIVES && (walk->items_cut || !walk->last.node)))
        return read_changed(t, p, at, low, high, defines);
    struct python_item *item = &walk->items[walk->item_count - 1];
    uint64_t before = item->instruction, now = before;
    if (client_likely(item->address == place.frame))
        now = instruction_at(l, place.frame);
    if (now != before && code_at(l, place.frame) == item->code)
        item->instruction = now;
    bool stepped = item->instruction != before;
    if (client_likely(is_like_last(walk, l, walk->item_count, walk->activation_count, &place, high,
                                   &walk->joins, chain)))
        return (!stepped && walk->last.node) || step(t, p, item, defines);
    item->instruction = before;
    return read_changed(t, p, at, low, high, defines);
}

#define READ_STATE(name, chain)                                                                    \
    static __attribute__((noinline)) bool name(struct thread *t, struct python *p, uint64_t at,    \
                                               uint64_t low, uint64_t high, bool defines)          \
    {                                                                                              \
        return read_state(t, p, at, low, high, defines, chain);                                    \
    }
READ_STATE(read_state_entries, PYTHON_ENTRIES)
READ_STATE(read_state_cframes, PYTHON_CFRAMES)
READ_STATE(read_state_pairs, PYTHON_PAIRS)
READ_STATE(read_state_natives, PYTHON_NATIVES)

bool python_read_state(struct thread *t, struct python *p, uint64_t at, uint64_t low, uint64_t high,
                       bool defines)
{
    if (p->layout.chain == PYTHON_CFRAMES)
        return read_state_cframes(t, p, at, low, high, defines);
    if (p->layout.chain == PYTHON_ENTRIES)
        return read_state_entries(t, p, at, low, high, defines);
    if (p->layout.chain == PYTHON_PAIRS)
        return read_state_pairs(t, p, at, low, high, defines);
    return read_state_natives(t, p, at, low, high, defines);
}
