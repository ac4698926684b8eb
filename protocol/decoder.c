#include "protocol/decoder_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct decoder *decoder_new(const struct decoder_config *config)
{
    struct decoder *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    const struct welcome *w = config->welcome;
    d->version = config->version;
    d->items = config->version->items;
    d->item_count = config->version->item_count;
    d->literal_tag = config->version->facts.literal_tag;
    d->fiber_memory = config->version->facts.fiber_memory && !config->as_released;
    d->plot_color_rgb = config->version->facts.plot_color_rgb && !config->as_released;
    d->clock = (struct wire_clock){.begin = w->init_begin, .mul = w->timer_mul};
    d->query = config->query;
    d->pageable = config->pageable;
    d->threads.pageable = d->fibers.pageable = d->code_sizes.pageable = config->pageable;
    d->sink = config->sink;
    d->read_code = config->read_code;
    d->sources.wanted = w->exec_time != 0;
    /*
     * Clients of 32 bits are meant to clear the upper 16 bits of a size but clear other bytes
     * (TracyProfiler.hpp SendMemAlloc, all protocol numbers).
     */
    bool narrow = w->cpu_arch == ARCH_X86 || w->cpu_arch == ARCH_ARM32;
    d->size_mask = narrow ? UINT32_MAX : UINT64_MAX;
    decoder_know_runs(d);
    return d;
}

void decoder_free(struct decoder *d)
{
    if (!d)
        return;
    struct slot *slots[] = {&d->single, &d->second, &d->location, &d->stack, &d->image};
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++)
        buf_release(&slots[i]->kept);
    buf_release(&d->reply.text);
    map_release(&d->threads);
    map_release(&d->fibers);
    map_release(&d->code_sizes);
    sources_release(&d->sources);
    pageable_vec_release(d->pageable, &d->states);
    free(d);
}

/* Copies the slots that still refer to the frame's bytes before the frame is released. */
static int keep_slots(struct decoder *d)
{
    struct slot *slots[] = {&d->single, &d->second, &d->location, &d->stack, &d->image};
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++) {
        struct slot *s = slots[i];
        if (!s->full || s->bytes.p == (const char *)s->kept.data)
            continue;
        buf_clear(&s->kept);
        buf_put(&s->kept, s->bytes.p, s->bytes.len);
        if (s->kept.failed)
            return err_no_memory(d->err, "a text between two frames");
        s->bytes.p = (const char *)s->kept.data;
    }
    return 0;
}

HANDLER(on_thread_context)
{
    uint32_t thread = field_u32(it, p, AT_THREAD);
    d->ref_thread = 0;
    if (thread != d->context) {
        d->context = thread;
        d->context_at = 0;
    }
    return 0;
}

HANDLER(on_fiber_enter)
{
    int64_t ticks = decoder_advance(it, p, &d->ref_thread);
    uint64_t key = field_u64(it, p, AT_FIBER);
    uint32_t thread = field_u32(it, p, AT_THREAD);
    struct thread_state *fiber =
        decoder_thread_state(d, &d->fibers, key, (uint64_t)1 << 32 | d->fiber_count, key);
    if (!fiber)
        return -1;
    size_t fiber_at = (size_t)(fiber - d->states.at) + 1;
    uint64_t fiber_id = fiber->id;
    d->fiber_count = d->fibers.count;
    struct thread_state *t = decoder_os_thread(d, thread);
    if (!t || query_ask(d->query, QUERY_FIBER_NAME, key, d->err) < 0)
        return -1;
    t->fiber = fiber_at;
    struct event ev = {
        .kind = EVENT_FIBER_ENTER, .thread = fiber_id, .time = clock_ns(&d->clock, ticks)};
    ev.fiber.fiber = key;
    ev.fiber.thread = thread;
    ev.fiber.group_hint = field_absent(it, AT_HINT) ? 0 : (int32_t)field_u32(it, p, AT_HINT);
    return decoder_emit(d, &ev);
}

HANDLER(on_fiber_leave)
{
    struct event ev = {.kind = EVENT_FIBER_LEAVE,
                       .thread = field_u32(it, p, AT_THREAD),
                       .time = clock_ns(&d->clock, decoder_advance(it, p, &d->ref_thread))};
    ev.fiber.thread = ev.thread;
    const uint64_t *at = map_find(&d->threads, ev.thread);
    struct thread_state *t = at ? &d->states.at[*at - 1] : NULL;
    if (t && t->fiber) {
        ev.thread = d->states.at[t->fiber - 1].id;
        ev.fiber.fiber = d->states.at[t->fiber - 1].fiber_key;
        t->fiber = 0;
    }
    return decoder_emit(d, &ev);
}

static HANDLER(on_none)
{
    return decoder_fail(d, "clients keep this item to themselves and never send it");
}

static decoder_handler *const handlers[WIRE_KIND_COUNT] = {
#define X(NAME, HANDLER) [WIRE_##NAME] = (HANDLER),
    WIRE_KINDS(X)
#undef X
};

/* Finds the tail of an item; -1 when the frame ends too early. */
static int take_tail(struct decoder *d, const struct wire_item *it, const uint8_t *p, size_t left,
                     struct view *tail)
{
    size_t start = it->size + wire_tail_size((enum wire_tail)it->tail);
    if (left < start)
        return decoder_fail(d, "the frame ends within its length");
    const uint8_t *prefix = p + it->size;
    size_t len = 0;
    switch (it->tail) {
    case WIRE_TAIL_8:
        len = *prefix;
        break;
    case WIRE_TAIL_16:
        len = load_u16(prefix);
        break;
    case WIRE_TAIL_16_PLUS_256:
        len = (size_t)load_u16(prefix) + 256;
        break;
    default:
        len = load_u32(prefix);
    }
    if (left - start < len)
        return decoder_fail(d, "%zu bytes of data belong to it, but its frame ends after %zu", len,
                            left - start);
    *tail = (struct view){(const char *)p + start, len};
    return 0;
}

static int decode_items(struct decoder *d, const uint8_t *bytes, size_t len)
{
    const uint8_t *end = bytes + len;
    for (const uint8_t *p = bytes; p < end;) {
        d->item = p;
        if (*p >= d->item_count)
            return decoder_fail(d, "the protocol has items 0 to %u only", d->item_count - 1);
        const struct wire_item *it = &d->items[*p];
        size_t left = (size_t)(end - p);
        if (left < it->size)
            return decoder_fail(d, "%u bytes long, but its frame ends after %zu", it->size, left);
        if (d->run_items[*p] != RUN_NONE) {
            const uint8_t *behind = decoder_memory_run(d, p, end);
            if (!behind)
                return -1;
            if (behind != p) {
                p = behind;
                continue;
            }
        }
        const uint8_t *next = p + it->size;
        struct view tail = {0};
        if (it->tail != WIRE_TAIL_NONE) {
            if (take_tail(d, it, p, left, &tail) < 0)
                return -1;
            next += wire_tail_size((enum wire_tail)it->tail) + tail.len;
        }
        d->stats.kinds[it->kind]++;
        if (handlers[it->kind](d, it, p, tail) < 0)
            return -1;
        p = next;
    }
    return 0;
}

int decoder_frame(struct decoder *d, const uint8_t *bytes, size_t len, struct err *e)
{
    if (d->broken)
        return err_set(e, ERR_INPUT, "protocol %" PRIu32 ": the stream broke in frame %" PRIu64,
                       d->version->protocol, d->stats.frames + 1);
    d->err = e;
    d->frame = bytes;
    int status = decode_items(d, bytes, len);
    /* Report the earlier of two errors: buffered events precede the current item. */
    if (decoder_emit_memory(d) < 0 || status < 0 || keep_slots(d) < 0) {
        d->broken = true;
        return -1;
    }
    d->stats.frames++;
    d->stats.bytes += len;
    return 0;
}

const struct decoder_stats *decoder_stats(struct decoder *d)
{
    d->stats.items = 0;
    for (int kind = 0; kind < WIRE_KIND_COUNT; kind++)
        d->stats.items += d->stats.kinds[kind];
    return &d->stats;
}

bool decoder_terminated(const struct decoder *d)
{
    return d->terminated;
}

bool decoder_crashed(const struct decoder *d)
{
    return d->crashed;
}

static bool payload_waits(const struct decoder *d)
{
    return d->single.full || d->second.full || d->location.full || d->stack.full || d->image.full ||
           d->has_custom || d->reply.open;
}

bool decoder_settled(const struct decoder *d)
{
    return query_idle(d->query) && !payload_waits(d) && (d->crashed || d->open_zones == 0);
}

bool decoder_in_group(const struct decoder *d)
{
    return payload_waits(d) || d->has_pool;
}
