/*
 * Reads the activations of CPython's evaluator and their frames.
 *
 * A reading follows the chain of frames from the innermost one outwards, and compares it with the
 * thread's last reading. As long as both agree, an item costs a few loads. Where the next frame
 * should be is taken from the last reading and then compared with the chain, so the processor need
 * not wait for one load before it begins the next.
 */

#include "client/python/python.h"

#define FRAMES_MOST 100000u /* that are followed to the end of an activation */
#define STATE_BYTES 512u    /* a thread state has at least */
#define NO_INSTRUCTION UINT64_MAX
#define GENERATOR 1u /* the owner of a generator's frame */

struct reader {
    struct thread *t;
    struct python *p;
    uint64_t low, high; /* the part of the C stack that the walk covers */
    /* The last reading, outermost first. Its items below `rest` are not met yet. */
    const struct python_item *old;
    uint32_t rest;
    uint32_t run;              /* what was met last are the old items from `rest` on, so many; */
    uint32_t count;            /* before them came these: */
    struct python_item *fresh; /* innermost first */
    uint32_t frames, most;
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
    enum { BYTES = 32 };
    return (address & 7) == 0 && address >= low && address < high - BYTES;
}

/* ---- items */

/* What was met is no longer known to go on as in the last reading. */
static void end_run(struct reader *r)
{
    for (uint32_t i = r->rest + r->run; i-- > r->rest;)
        r->fresh[r->count++] = r->old[i];
    r->run = 0;
}

/* Takes back all items but the first `met`. */
static void take_back(struct reader *r, uint32_t met)
{
    end_run(r);
    r->count = met;
    r->rest = 0;
}

/* Looks for an old item of that address; true: it is the last one of those not met yet. */
static bool find_old(struct reader *r, uint64_t address)
{
    enum { NEAR = 8 };
    for (uint32_t i = 0; i < NEAR && i < r->rest; i++) {
        if (r->old[r->rest - 1 - i].address == address) {
            r->rest -= i;
            return true;
        }
    }
    return false;
}

static bool find_source(const struct reader *r, struct python_item *item)
{
    uint64_t mixed = (item->code ^ item->instruction << 20) * UINT64_C(0x9e3779b97f4a7c15);
    struct python_cell *cell = &r->p->known[mixed >> (64 - PYTHON_CODES_BITS)];
    uint32_t generation =
        atomic_load_explicit(python_generation(r->p, item->code), memory_order_relaxed);
    struct python_entry entry = {{item->instruction, item->code}, generation, 0};
    if (client_likely(python_cell_find(cell, &entry))) {
        item->source = entry.source;
        return true;
    }
    bool generator = *(const uint8_t *)(uintptr_t)(item->address + r->p->layout.owner) == GENERATOR;
    if (!r->defines ||
        !python_describe(r->t, r->p, item->code, item->instruction, generator, &item->source))
        return false;
    entry.source = item->source;
    python_cell_put(cell, &entry);
    return true;
}

/* Takes the next item if the last reading went on with it, too. */
static inline bool goes_on(struct reader *r, const struct python_item *item)
{
    const struct python_item *old = &r->old[r->rest - 1];
    if (!r->rest || old->address != item->address || old->code != item->code ||
        old->instruction != item->instruction)
        return false;
    r->rest--;
    r->run++;
    return true;
}

/* Takes an item that was elsewhere in the last reading; false: it was not there. */
static bool is_again(struct reader *r, const struct python_item *item)
{
    end_run(r);
    if (!find_old(r, item->address))
        return false;
    if (goes_on(r, item))
        return true;
    r->rest--;
    return false;
}

static __attribute__((noinline)) bool take_other(struct reader *r, struct python_item item)
{
    if (is_again(r, &item))
        return true;
    if (!find_source(r, &item))
        return false;
    r->fresh[r->count++] = item;
    return true;
}

/* False: the frame cannot be described. */
static inline bool take_frame(struct reader *r, uint64_t frame)
{
    const struct python_layout *l = &r->p->layout;
    uint64_t instruction = word_at(frame + l->instruction);
    struct python_item item = {.address = frame,
                               .code = word_at(frame + l->code) & ~(uint64_t)l->code_tags,
                               .instruction = l->bytecode ? instruction : (uint32_t)instruction};
    r->frames++;
    return client_likely(goes_on(r, &item)) || take_other(r, item);
}

/* An activation, after its frames; `at`: its address on the C stack. */
static inline void take_activation(struct reader *r, uint64_t at)
{
    struct python_item item = {.address = at, .instruction = NO_INSTRUCTION};
    if (client_unlikely(!goes_on(r, &item)) && !is_again(r, &item))
        r->fresh[r->count++] = item;
}

/* ---- chains */

/*
 * Follows an activation's chain from `*frame` outwards, as long as it is that of the last reading.
 * *frame: where it no longer is. Returns true at the activation's last frame, if only the frame
 * itself says that it is that one; *frame is then the frame that called it.
 *
 * `same` equals `guess`, but the compiler does not know it: it does not depend on the load that
 * gave the frame's address.
 */
static inline __attribute__((always_inline)) bool follow(struct reader *r, uint64_t *frame,
                                                         enum python_chain chain)
{
    const struct python_layout l = r->p->layout;
    const struct python_item *old = r->old + r->rest;
    uint32_t room = r->most - r->frames, most = r->rest < room ? r->rest : room, n = 0;
    uint64_t next = *frame;
    bool last = false;
    while (n < most && !last) {
        old--;
        uint64_t guess = old->address, same = guess;
        __asm__("" : "+r"(same));
        /* An activation has no instruction, so it does not pass for its frame. */
        if (guess != next || old->instruction != word_at(same + l.instruction))
            break;
        last =
            chain == PYTHON_CFRAMES && *(const uint8_t *)(uintptr_t)(same + l.last) == l.last_value;
        next = word_at(same + l.previous);
        n++;
    }
    r->rest -= n;
    r->run += n;
    r->frames += n;
    *frame = next;
    return last;
}

/*
 * Takes the frames of one activation, from `*frame` outwards. *frame: the frame that called it.
 * *at: since 3.12, the last frame, which is that of the activation. False: something is wrong.
 */
static inline __attribute__((always_inline)) bool take_frames(struct reader *r, uint64_t *frame,
                                                              enum python_chain chain, uint64_t *at)
{
    const struct python_layout *l = &r->p->layout;
    for (unsigned i = 0; i < FRAMES_MOST; i++) {
        if (follow(r, frame, chain))
            return true;
        if (!is_pointer(*frame))
            return false;
        bool last = *(const uint8_t *)(uintptr_t)(*frame + l->last) == l->last_value;
        bool room = r->frames < r->most;
        if (chain == PYTHON_CFRAMES || !last) {
            if (room && !take_frame(r, *frame))
                return false;
            r->cut |= !room;
        }
        *at = *frame;
        *frame = word_at(*frame + l->previous);
        /* A cframe has the activation's address, so its other frames need no visit. */
        if (last || (chain == PYTHON_CFRAMES && !room))
            return true;
    }
    return false;
}

/* 3.11: a cframe on the C stack has the running frame of each activation. */
static bool read_cframes(struct reader *r, uint64_t cframe)
{
    const struct python_layout *l = &r->p->layout;
    uint64_t last;
    while (!r->cut && r->frames < r->most) {
        /* The outermost one is in the thread state. */
        if (!is_within(cframe, r->low, r->high))
            return true;
        /* One that runs nothing: greenlet begins a stack with it. */
        uint64_t frame = word_at(cframe + l->frame);
        if (frame) {
            if (!take_frames(r, &frame, PYTHON_CFRAMES, &last))
                return false;
            take_activation(r, cframe);
        }
        r->low = cframe + 8;
        cframe = word_at(cframe + l->cframe_previous);
    }
    r->cut = true;
    return true;
}

/*
 * 3.10: cframes on the C stack and frames are two lists, whose items correspond. Code that makes
 * frames without cframes is noticed by their number.
 */
static bool read_pairs(struct reader *r, uint64_t state_at)
{
    const struct python_layout *l = &r->p->layout;
    uint64_t cframe = word_at(state_at + l->cframe), frame = word_at(state_at + l->frame);
    for (unsigned i = 0; frame && i < FRAMES_MOST; i++) {
        if (!is_pointer(frame))
            return false;
        /* Beyond is another stack, or the end: the outermost cframe is in the thread state. */
        if (!is_within(cframe, r->low, r->high))
            return cframe - state_at >= STATE_BYTES;
        if (r->frames < r->most) {
            if (!take_frame(r, frame))
                return false;
            take_activation(r, cframe);
        } else {
            r->cut = true;
        }
        r->low = cframe + 8;
        cframe = word_at(cframe + l->cframe_previous);
        frame = word_at(frame + l->previous);
    }
    return true;
}

/* Later versions: each activation ends with a frame of no code, which is itself on the C stack. */
static bool read_entries(struct reader *r, uint64_t frame)
{
    uint64_t at = 0;
    while (frame) {
        uint32_t met = r->count + r->run;
        if (r->frames >= r->most) {
            r->cut = true;
            break;
        }
        if (!take_frames(r, &frame, PYTHON_ENTRIES, &at))
            return false;
        if (!is_within(at, r->low, r->high)) {
            take_back(r, met);
            break;
        }
        take_activation(r, at);
        r->low = at + 8;
    }
    return true;
}

/* ---- a reading */

/*
 * Whether all is as in the last reading, which is the usual case and needs no reader. `from` has
 * the pointer to the running frame; `cframe`: the innermost one. Frames and activations are two
 * chains before 3.12: where both are as before, each activation runs the same frames.
 *
 * `same` equals `guess`, but the compiler does not know it: so the processor need not wait for the
 * load of the address with which `guess` was compared.
 */
static inline __attribute__((always_inline)) bool
is_unchanged(const struct walk *walk, const struct python_layout *l, uint64_t from, uint64_t cframe,
             uint64_t low, uint64_t high, enum python_chain chain)
{
    const struct python_item *begin = walk->items, *item = begin + walk->item_count;
    uint64_t frame = word_at(from + l->frame);
    while (item-- > begin) {
        uint64_t guess = item->address, same = guess;
        __asm__("" : "+r"(same));
        if (item->code) {
            if (guess != frame)
                return false;
            uint64_t instruction = chain == PYTHON_PAIRS
                                       ? *(const uint32_t *)(uintptr_t)(same + l->instruction)
                                       : word_at(same + l->instruction);
            /* A number does not imply the code object, as an address does. */
            if (instruction != item->instruction ||
                (chain == PYTHON_PAIRS && word_at(same + l->code) != item->code))
                return false;
            frame = word_at(same + l->previous);
            continue;
        }
        if (guess != (chain == PYTHON_ENTRIES ? frame : cframe) || !is_within(guess, low, high))
            return false;
        low = guess + 8;
        if (chain == PYTHON_ENTRIES)
            frame = word_at(same + l->previous);
        else
            cframe = word_at(same + l->cframe_previous);
        if (chain == PYTHON_CFRAMES && item > begin &&
            (!is_within(cframe, low, high) || word_at(cframe + l->frame) != frame))
            return false;
    }
    return !frame;
}

/* Makes the reading the walk's last one. Returns whether it differs from the one before. */
static bool keep(struct reader *r, struct walk *walk, uint32_t before)
{
    if (r->rest)
        end_run(r);
    uint32_t kept = r->run;
    for (uint32_t i = 0; i < r->count; i++)
        walk->items[kept + r->count - 1 - i] = r->fresh[i];
    walk->item_count = kept + r->count;
    walk->items_cut = r->cut;
    return r->count || kept != before;
}

static __attribute__((noinline)) bool read_changed(struct thread *t, struct python *p, uint64_t at,
                                                   uint64_t low, uint64_t high, bool known,
                                                   bool defines)
{
    const struct python_layout *l = &p->layout;
    struct walk *walk = &t->walk;
    uint32_t before = known ? walk->item_count : 0;
    bool was_cut = walk->items_cut;
    struct reader r = {.t = t,
                       .p = p,
                       .low = low,
                       .high = high,
                       .old = walk->items,
                       .rest = before,
                       .fresh = walk->fresh_items,
                       .most = state.depth,
                       .defines = defines};
    uint64_t from = l->cframe ? word_at(at + l->cframe) : at;
    walk->item_count = 0;
    if (!is_pointer(from) ||
        !(l->chain == PYTHON_CFRAMES ? read_cframes(&r, from)
          : l->chain == PYTHON_PAIRS ? read_pairs(&r, at)
                                     : read_entries(&r, word_at(from + l->frame))))
        return false;
    if (keep(&r, walk, before) || was_cut != walk->items_cut)
        walk->mixed_node = 0;
    return true;
}

static bool is_as_before(const struct walk *walk, const struct python_layout *l, uint64_t at,
                         uint64_t low, uint64_t high)
{
    uint64_t cframe = l->cframe ? word_at(at + l->cframe) : 0;
    switch (l->chain) {
    case PYTHON_CFRAMES:
        return is_within(cframe, low, high) &&
               is_unchanged(walk, l, cframe, cframe, low, high, PYTHON_CFRAMES);
    case PYTHON_PAIRS:
        return is_unchanged(walk, l, at, cframe, low, high, PYTHON_PAIRS);
    default:
        return (!l->cframe || is_pointer(cframe)) &&
               is_unchanged(walk, l, cframe ? cframe : at, cframe, low, high, PYTHON_ENTRIES);
    }
}

bool python_read_state(struct thread *t, struct python *p, uint64_t at, uint64_t low, uint64_t high,
                       bool defines)
{
    uint32_t freed = atomic_load_explicit(&p->codes_freed, memory_order_relaxed);
    struct walk *walk = &t->walk;
    bool known = walk->codes_freed == freed;
    if (known && is_as_before(walk, &p->layout, at, low, high))
        return true;
    walk->codes_freed = freed;
    return read_changed(t, p, at, low, high, known, defines);
}
