/* Memory events and call stacks: the hot path. */

#include "protocol/decoder_state.h"

#include <inttypes.h>
#include <string.h>

#include "base/cursor.h"

/* ---- memory */

/* Takes the pending pool name of a …Named item and queries its text. */
static int take_pool(struct decoder *d, uint64_t *pool)
{
    if (!d->has_pool)
        return decoder_fail(d, "no MemNamePayload came before it");
    d->has_pool = false;
    *pool = d->pool;
    uint64_t *recent = &d->recent_pools[(d->pool >> 4) % RECENT];
    if (*recent == d->pool)
        return 0;
    *recent = d->pool;
    return query_ask(d->query, QUERY_STRING, d->pool, d->err);
}

int decoder_emit_memory(struct decoder *d)
{
    /* If memory is too short for the call stacks, still deliver the events, without stacks. */
    bool settled = decoder_settle_stacks(d) == 0;
    struct err later, *e = settled ? d->err : &later;
    unsigned n = d->memory_count;
    int status = 0;
    d->memory_count = 0;
    if (d->sink.memory && n)
        status = d->sink.memory(d->sink.ctx, d->memory, n, e);
    for (unsigned i = 0; !d->sink.memory && i < n && status == 0; i++) {
        struct event ev = event_of_memory(&d->memory[i]);
        status = d->sink.event(d->sink.ctx, &ev, e);
    }
    return settled ? status : -1;
}

/*
 * The item names the pool. Clients of 72 to 79 send a call stack before the plain item. The decoder
 * drops that stack, so that frees have the same call stacks as in an official capture of the same
 * bytes, and no later event takes it.
 */
HANDLER(on_mem_discard)
{
    struct event ev = {.kind = EVENT_MEM_DISCARD, .thread = field_u32(it, p, AT_THREAD)};
    uint32_t stack;
    d->ref_serial += field_u64(it, p, AT_TIME);
    if (decoder_note_thread(d, (uint32_t)ev.thread) < 0 || decoder_take_serial_stack(d, &stack) < 0)
        return -1;
    if (it->flags & WIRE_F_CALLSTACK)
        ev.callstack = stack;
    else if (stack)
        d->stats.stale_callstacks++;
    ev.time = clock_ns(&d->clock, (int64_t)d->ref_serial);
    ev.mem.pool = field_u64(it, p, AT_MEM_POOL);
    return decoder_emit(d, &ev);
}

/* A null name is the key of the default pool, as in the official server. */
HANDLER(on_mem_name)
{
    if (d->has_pool)
        return decoder_fail(d, "the MemNamePayload before it was not used by any item");
    d->has_pool = true;
    d->pool = field_u64(it, p, AT_MEM_POOL);
    return 0;
}

/* ---- call stacks */

HANDLER(on_callstack_payload)
{
    if (tail.len % 8 != 0)
        return decoder_fail(d, "%zu bytes are no whole number of 8-byte addresses", tail.len);
    return slot_fill(d, &d->stack, "CallstackPayload", tail);
}

/* Frames that the client describes itself (scripts); they precede the native ones. */
HANDLER(on_callstack_alloc_payload)
{
    if (d->has_custom)
        return decoder_fail(d, "the CallstackAllocPayload before it was not used by any item");
    struct cursor c = cursor_over(tail.p, tail.len);
    unsigned count = cursor_u8(&c);
    if (count > CUSTOM_FRAMES_MAX)
        return decoder_fail(d, "%u frames, but at most %d are allowed", count, CUSTOM_FRAMES_MAX);
    d->custom_count = 0;
    for (unsigned i = 0; i < count; i++) {
        uint32_t line = cursor_u32(&c);
        struct view function = {.len = cursor_u16(&c)};
        function.p = (const char *)cursor_take(&c, function.len);
        struct view file = {.len = cursor_u16(&c)};
        file.p = (const char *)cursor_take(&c, file.len);
        if (c.short_read)
            return decoder_fail(d, "its %zu bytes end within frame %u of %u", tail.len, i + 1,
                                count);
        if (d->sink.custom_frame(d->sink.ctx, function, file, line, &d->custom[d->custom_count],
                                 d->err) < 0)
            return -1;
        d->custom_count++;
    }
    if (cursor_left(&c) || c.short_read)
        return decoder_fail(d, "%zu bytes are left after its %u frames", cursor_left(&c), count);
    d->has_custom = true;
    return 0;
}

/* Converts addresses to frame ids, in pairs, which compilers vectorise. */
static void copy_frames(uint64_t *frames, const char *addresses, size_t n)
{
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        const char *p = addresses + 8 * i;
        uint64_t a = load_u64(p) & FRAME_ADDRESS_MASK, b = load_u64(p + 8) & FRAME_ADDRESS_MASK;
        uint64_t c = load_u64(p + 16) & FRAME_ADDRESS_MASK,
                 d = load_u64(p + 24) & FRAME_ADDRESS_MASK;
        frames[i] = a;
        frames[i + 1] = b;
        frames[i + 2] = c;
        frames[i + 3] = d;
    }
    for (; i < n; i++)
        frames[i] = load_u64(addresses + 8 * i) & FRAME_ADDRESS_MASK;
}

/* Interns the frames of d->frames, whose last `native` ones are those of `addresses`. */
static int intern(struct decoder *d, size_t n, const char *addresses, size_t native, uint32_t *id)
{
    bool fresh = false;
    *id = 0;
    if (n == 0)
        return 0;
    if (d->sink.callstack(d->sink.ctx, d->frames, (uint32_t)n, id, &fresh, d->err) < 0)
        return -1;
    for (size_t i = 0; fresh && i < native; i++)
        if (query_ask(d->query, QUERY_CALLSTACK_FRAME, load_u64(addresses + 8 * i), d->err) < 0)
            return -1;
    return 0;
}

/* The call stack in the payload slots; *id = 0 when it has no frames. */
static int take_stack(struct decoder *d, uint32_t *id)
{
    if (!d->stack.full && !d->has_custom)
        return decoder_fail(d, "no CallstackPayload came before it");
    size_t native = d->stack.full ? d->stack.bytes.len / 8 : 0;
    size_t custom = d->has_custom ? d->custom_count : 0;
    const char *addresses = d->stack.bytes.p;
    if (decoder_settle_stacks(d) < 0)
        return -1;
    d->stack.full = false;
    d->has_custom = false;
    for (size_t i = 0; i < custom; i++)
        d->frames[i] = d->custom[i];
    copy_frames(d->frames + custom, addresses, native);
    return intern(d, custom + native, addresses, native, id);
}

/* Interns a stack that was not found and stores its id where it is needed. */
static int intern_sent(struct decoder *d, struct sent_callstack *s)
{
    copy_frames(d->frames, s->addresses, s->n);
    return intern(d, s->n, s->addresses, s->n, &s->id);
}

int decoder_settle_stacks(struct decoder *d)
{
    unsigned n = d->stack_count;
    d->stack_count = 0;
    if (n && d->sink.find_callstacks)
        d->sink.find_callstacks(d->sink.ctx, d->stacks, n);
    for (unsigned i = 0; i < n; i++) {
        struct sent_callstack *s = &d->stacks[i];
        if (s->id == 0 && intern_sent(d, s) < 0)
            return -1;
        *(d->takers[i] ? d->takers[i] : &d->serial_stack) = s->id;
    }
    return 0;
}

int decoder_take_serial_stack(struct decoder *d, uint32_t *id)
{
    if (decoder_settle_stacks(d) < 0)
        return -1;
    *id = d->serial_stack;
    d->serial_stack = 0;
    return 0;
}

HANDLER(on_callstack_serial)
{
    uint32_t before;
    if (decoder_take_serial_stack(d, &before) < 0)
        return -1;
    d->stats.stale_callstacks += before != 0;
    return take_stack(d, &d->serial_stack);
}

HANDLER(on_callstack)
{
    uint32_t id;
    if (take_stack(d, &id) < 0)
        return -1;
    struct thread_state *t = decoder_current(d);
    if (!t)
        return -1;
    d->stats.stale_callstacks += t->callstack != 0;
    t->callstack = id;
    return 0;
}

/* A sum of 0 ticks means that the client does not know the time. */
HANDLER(on_sample)
{
    struct event ev = {.kind = it->kind == WIRE_SAMPLE ? EVENT_SAMPLE : EVENT_SWITCH_SAMPLE,
                       .thread = field_u32(it, p, AT_THREAD)};
    int64_t ticks = decoder_advance(it, p, &d->ref_ctx);
    ev.time = ticks ? clock_ns(&d->clock, ticks) : 0;
    if (take_stack(d, &ev.callstack) < 0 || decoder_note_thread(d, (uint32_t)ev.thread) < 0)
        return -1;
    return decoder_emit(d, &ev);
}

/* ---- runs of memory events */

void decoder_know_runs(struct decoder *d)
{
    static const uint8_t kinds[WIRE_KIND_COUNT] = {[WIRE_MEM_ALLOC] = RUN_EVENT | RUN_ALLOC,
                                                   [WIRE_MEM_FREE] = RUN_EVENT,
                                                   [WIRE_CALLSTACK_PAYLOAD] = RUN_PAYLOAD,
                                                   [WIRE_CALLSTACK_SERIAL] = RUN_SERIAL,
                                                   [WIRE_MEM_NAME] = RUN_POOL};
    for (unsigned id = 0; id < d->item_count; id++) {
        const struct wire_item *it = &d->items[id];
        unsigned what = kinds[it->kind];
        if (what & RUN_EVENT)
            what |= (it->flags & WIRE_F_NAMED ? RUN_NAMED : 0u) |
                    (it->flags & WIRE_F_CALLSTACK ? RUN_STACK : 0u);
        d->run_items[id] = (uint8_t)what;
    }
}

/* The decoder's state that a run keeps in registers, written back when the run ends. */
struct run {
    struct memory_event *next; /* in the decoder's `memory` */
    uint32_t **untaken;        /* where the pending stack's taker will be stored; NULL: none */
    uint64_t ticks;            /* the reference of serial times */
    uint64_t thread;           /* of the last event; UINT64_MAX: none */
    uint64_t owner; /* owner of that thread's memory: the thread, or the fiber that runs on it */
    uint64_t allocations, frees, stacks;
};

/*
 * Fast path for the usual start of a memory event: a valid CallstackPayload directly followed by
 * its CallstackSerial needs no slot. Returns the end of both; NULL when the bytes differ, and then
 * the general path decodes them.
 */
static inline const uint8_t *serial_stack_end(const struct decoder *d, const uint8_t *p,
                                              const uint8_t *end, uint32_t *frames)
{
    size_t left = (size_t)(end - p);
    if (left < PAYLOAD_HEAD)
        return NULL;
    size_t len = load_u16(p + PAYLOAD_LEN_AT);
    if (len % 8 != 0 || left <= PAYLOAD_HEAD + len || d->stack.full || d->has_custom)
        return NULL;
    const uint8_t *serial = p + PAYLOAD_HEAD + len;
    *frames = (uint32_t)len / 8;
    return d->run_items[*serial] == RUN_SERIAL ? serial + 1 : NULL;
}

/*
 * Makes the addresses the serial call stack. There is room: earlier stacks belong to that many
 * pending events, or are looked up now.
 */
static inline int add_serial_stack(struct decoder *d, struct run *r, const uint8_t *addresses,
                                   uint32_t n)
{
    if (__builtin_expect(r->untaken != NULL, 0) && decoder_settle_stacks(d) < 0)
        return -1;
    r->untaken = NULL;
    if (__builtin_expect(d->serial_stack != 0, 0)) {
        d->stats.stale_callstacks++;
        d->serial_stack = 0;
    }
    r->stacks++;
    if (n == 0)
        return 0;
    unsigned i = d->stack_count++;
    d->stacks[i] = (struct sent_callstack){.addresses = addresses, .n = n};
    r->untaken = &d->takers[i];
    *r->untaken = NULL;
    return 0;
}

/*
 * Attaches the pending call stack. It may be missing: a build without unwinder sends …Callstack
 * items without one.
 */
static inline void take_serial_stack(struct decoder *d, struct run *r, struct memory_event *ev)
{
    ev->callstack = d->serial_stack;
    d->serial_stack = 0;
    if (r->untaken)
        *r->untaken = &ev->callstack;
    r->untaken = NULL;
}

/* Delivers the batch, which the last event filled. */
static inline int hand_over(struct decoder *d, struct run *r)
{
    d->memory_count = MEMORY_BATCH;
    r->next = d->memory;
    r->untaken = NULL;
    return decoder_emit_memory(d);
}

/*
 * Adds an allocation or a free. Programs mix them unpredictably, so the code does not branch on
 * which it is: for a free, which has no size, it reads the bytes before its end and masks them out.
 */
static inline int add_event(struct decoder *d, struct run *r, unsigned what, const uint8_t *p)
{
    struct memory_event *ev = r->next;
    unsigned is_alloc = (what & RUN_ALLOC) / RUN_ALLOC;
    const uint8_t *size = p + (is_alloc ? ALLOC_BYTES : FREE_BYTES) - 8;
    uint32_t thread = load_u32(p + EVENT_THREAD_AT);
    r->ticks += load_u64(p + EVENT_TIME_AT);
    if (thread != r->thread) {
        if (decoder_note_thread(d, thread) < 0)
            return -1;
        r->owner = decoder_memory_owner(d, thread);
    }
    r->thread = thread;
    ev->pool = 0;
    if (what & RUN_NAMED && take_pool(d, &ev->pool) < 0)
        return -1;
    ev->callstack = 0;
    if (what & RUN_STACK)
        take_serial_stack(d, r, ev);
    ev->kind = is_alloc ? EVENT_MEM_ALLOC : EVENT_MEM_FREE;
    ev->thread = r->owner;
    ev->time = clock_ns(&d->clock, (int64_t)r->ticks);
    ev->ptr = load_u64(p + EVENT_PTR_AT);
    ev->size = load_u64(size) >> 16 & d->size_mask & -(uint64_t)is_alloc;
    r->allocations += is_alloc;
    r->frees += !is_alloc;
    return ++r->next < &d->memory[MEMORY_BATCH] ? 0 : hand_over(d, r);
}

/*
 * Decodes the item at `p` if it belongs to the run. Returns the start of the next item, `p` itself
 * if it does not belong to the run, or NULL after an error.
 */
static inline __attribute__((always_inline)) const uint8_t *
take_item(struct decoder *d, struct run *r, const uint8_t *p, const uint8_t *end)
{
    unsigned what = d->run_items[*p];
    if (what & RUN_EVENT) {
        size_t size = what & RUN_ALLOC ? ALLOC_BYTES : FREE_BYTES;
        if ((size_t)(end - p) < size)
            return p;
        return add_event(d, r, what, p) < 0 ? NULL : p + size;
    }
    if (what == RUN_PAYLOAD) {
        uint32_t n;
        const uint8_t *behind = serial_stack_end(d, p, end, &n);
        if (!behind)
            return p;
        return add_serial_stack(d, r, p + PAYLOAD_HEAD, n) < 0 ? NULL : behind;
    }
    if (what != RUN_POOL || d->has_pool || end - p < POOL_BYTES)
        return p;
    d->has_pool = true;
    d->pool = load_u64(p + POOL_AT);
    d->stats.kinds[WIRE_MEM_NAME]++;
    return p + POOL_BYTES;
}

const uint8_t *decoder_memory_run(struct decoder *d, const uint8_t *p, const uint8_t *end)
{
    unsigned waiting = d->stack_count;
    struct run r = {.next = &d->memory[d->memory_count],
                    .untaken = waiting && !d->takers[waiting - 1] ? &d->takers[waiting - 1] : NULL,
                    .ticks = d->ref_serial,
                    .thread = UINT64_MAX};
    while (p != end) {
        d->item = p;
        const uint8_t *behind = take_item(d, &r, p, end);
        if (behind == p)
            break;
        p = behind;
        if (!p)
            break;
    }
    d->memory_count = (unsigned)(r.next - d->memory);
    d->ref_serial = r.ticks;
    d->stats.kinds[WIRE_MEM_ALLOC] += r.allocations;
    d->stats.kinds[WIRE_MEM_FREE] += r.frees;
    d->stats.kinds[WIRE_CALLSTACK_PAYLOAD] += r.stacks;
    d->stats.kinds[WIRE_CALLSTACK_SERIAL] += r.stacks;
    return p;
}

/* Handles an event outside a run, which is rare. */
HANDLER(on_memory_event)
{
    return decoder_memory_run(d, p, p + it->size) ? 0 : -1;
}
