/* Memory events and call stacks: the hot path. */

#include "protocol/decoder_state.h"

#include <inttypes.h>
#include <string.h>

#include "base/cursor.h"

/* ---- memory */

/* Takes the pool name that waits for a …Named item, and asks for its text. */
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
    if (decoder_settle_stacks(d) < 0)
        return -1;
    unsigned n = d->memory_count;
    int status = 0;
    d->memory_count = 0;
    if (d->sink.memory)
        return n ? d->sink.memory(d->sink.ctx, d->memory, n, d->err) : 0;
    for (unsigned i = 0; i < n && status == 0; i++)
        status = d->sink.event(d->sink.ctx, &d->memory[i], d->err);
    return status;
}

/*
 * An allocation or a free, which then waits for others of their kind. Programs mix them in no order
 * that a processor could predict, so nothing here depends on which of them it is: where a free has
 * no size, whatever stands at its beginning is masked away. The call stack may be missing: a build
 * without unwinder sends …Callstack items without one.
 */
static inline __attribute__((always_inline)) int
add_memory_event(struct decoder *d, const struct wire_item *it, const uint8_t *p)
{
    bool is_alloc = it->kind == WIRE_MEM_ALLOC;
    d->ref_serial += field_u64(it, p, AT_TIME);
    uint32_t thread = field_u32(it, p, AT_THREAD);
    uint64_t pool = 0;
    if (decoder_note_thread(d, thread) < 0)
        return -1;
    if (it->flags & WIRE_F_NAMED && take_pool(d, &pool) < 0)
        return -1;
    struct event *ev = &d->memory[d->memory_count];
    ev->kind = is_alloc ? EVENT_MEM_ALLOC : EVENT_MEM_FREE;
    ev->callstack = 0;
    if (it->flags & WIRE_F_CALLSTACK) {
        ev->callstack = d->serial_stack;
        d->serial_stack = 0;
        if (d->stack_count && !d->stacks[d->stack_count - 1].taker)
            d->stacks[d->stack_count - 1].taker = d->memory_count + 1;
    }
    ev->thread = thread;
    ev->time = clock_ns(&d->clock, (int64_t)d->ref_serial);
    ev->mem.pool = pool;
    ev->mem.ptr = field_u64(it, p, AT_MEM_PTR);
    ev->mem.size = load_u48(p + it->at[AT_MEM_SIZE]) & d->size_mask & -(uint64_t)is_alloc;
    return ++d->memory_count < MEMORY_BATCH ? 0 : decoder_emit_memory(d);
}

/*
 * The pool stands in the item. Clients of 72 to 79 send a call stack and then the plain item: the
 * stack is dropped, so that frees have the same call stacks as in an official capture of the same
 * bytes, and so that it does not stick to a later event.
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

/* A null name is the default pool's key, as in the official server. */
/* One by itself; decoder_memory_run takes those that it comes upon. */
HANDLER(on_memory_event)
{
    return add_memory_event(d, it, p);
}

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

/* Frames that the client describes itself (scripts); they stand before the native ones. */
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

/* Addresses as sent → frame ids; two by two, which compilers turn into vector instructions. */
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

/* Interns the frames of d->frames, of which the last `native` came as `addresses`. */
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

/* The call stack that waits in the payload slots; *id = 0 when it has no frames. */
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

static int look_up_stack(struct decoder *d, const struct waiting_stack *w)
{
    uint32_t *id = w->taker ? &d->memory[w->taker - 1].callstack : &d->serial_stack;
    size_t n = w->addresses.len / 8;
    if (w->has_key && (*id = d->sink.callstack_find(d->sink.ctx, w->key)))
        return 0;
    copy_frames(d->frames, w->addresses.p, n);
    return intern(d, n, w->addresses.p, n, id);
}

int decoder_settle_stacks(struct decoder *d)
{
    unsigned n = d->stack_count;
    d->stack_count = 0;
    for (unsigned i = 0; i < n; i++) {
        if (look_up_stack(d, &d->stacks[i]) < 0)
            return -1;
    }
    return 0;
}

/* The addresses become the serial call stack. */
static inline int add_serial_stack(struct decoder *d, struct view addresses)
{
    bool no_room =
        d->stack_count == MEMORY_BATCH || (d->stack_count && !d->stacks[d->stack_count - 1].taker);
    if (no_room && decoder_settle_stacks(d) < 0)
        return -1;
    d->stats.stale_callstacks += d->serial_stack != 0;
    d->serial_stack = 0;
    size_t n = addresses.len / 8;
    if (n == 0)
        return 0;
    struct waiting_stack *w = &d->stacks[d->stack_count++];
    w->addresses = addresses;
    w->taker = 0;
    /* The next stacks lie in what was decompressed a while ago; past its end this is no pointer. */
    for (size_t i = 0; i < 3; i++) /* NOLINTNEXTLINE(performance-no-int-to-ptr) */
        __builtin_prefetch((const void *)((uintptr_t)addresses.p + 512 + 64 * i));
    w->has_key = d->sink.callstack_ahead && n <= CALLSTACK_AHEAD_MAX;
    if (w->has_key)
        w->key = d->sink.callstack_ahead(d->sink.ctx, addresses.p, (uint32_t)n);
    return 0;
}

/*
 * A short cut for what nearly every memory event begins with: a sound CallstackPayload with its
 * CallstackSerial right behind it needs no slot in between. Where they end; NULL when it is
 * something else, which the general way will find out about.
 */
static inline const uint8_t *serial_stack_end(const struct decoder *d, const struct wire_item *it,
                                              const uint8_t *p, const uint8_t *end,
                                              struct view *addresses)
{
    size_t left = (size_t)(end - p), head = it->size + 2u;
    if (it->kind != WIRE_CALLSTACK_PAYLOAD || it->tail != WIRE_TAIL_16 || left < head)
        return NULL;
    size_t len = load_u16(p + it->size);
    if (len % 8 != 0 || left <= head + len || d->stack.full || d->has_custom)
        return NULL;
    const uint8_t *serial = p + head + len;
    if (*serial >= d->item_count || d->items[*serial].kind != WIRE_CALLSTACK_SERIAL)
        return NULL;
    *addresses = (struct view){(const char *)p + head, len};
    return serial + 1;
}

const uint8_t *decoder_memory_run(struct decoder *d, const uint8_t *p, const uint8_t *end)
{
    while (p != end && *p < d->item_count) {
        const struct wire_item *it = &d->items[*p];
        const uint8_t *behind;
        struct view addresses;
        if (wire_is_memory_event(it) && it->size <= end - p) {
            d->item = p;
            d->stats.kinds[it->kind]++;
            if (add_memory_event(d, it, p) < 0)
                return NULL;
            p += it->size;
        } else if ((behind = serial_stack_end(d, it, p, end, &addresses))) {
            d->item = p;
            d->stats.kinds[WIRE_CALLSTACK_PAYLOAD]++;
            d->stats.kinds[WIRE_CALLSTACK_SERIAL]++;
            if (add_serial_stack(d, addresses) < 0)
                return NULL;
            p = behind;
        } else {
            break;
        }
    }
    return p;
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
