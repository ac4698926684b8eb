/*
 * Decompressed items of any protocol: the first byte picks it. What decodes as one frame must give
 * the same events with a frame for each item.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "protocol/decoder.h"
#include "symbols/instructions.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define WANTED_MAX 64 /* call stacks that a decoder looks up at once */

struct outcome {
    uint64_t events, hash;
    uint64_t stack_hash, custom_hash;
    struct {
        uint64_t hash;
        uint32_t n;
    } wanted[WANTED_MAX]; /* their frames come next; behind them any may come */
    size_t next_wanted, wanted_count;
    uint32_t stacks;
    int rc;
};

static void mix(struct outcome *o, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;
    for (size_t i = 0; i < n; i++)
        o->hash = (o->hash ^ p[i]) * 0x100000001b3u;
}

static void mix_view(struct outcome *o, struct view v)
{
    mix(o, &v.len, sizeof v.len);
    mix(o, v.p, v.len);
}

static void mix_location(struct outcome *o, const struct event_location *l)
{
    if (!l)
        return;
    mix_view(o, l->name);
    mix_view(o, l->function);
    mix_view(o, l->file);
}

/* Reads every text that the event shows, so that a wrong length is found. */
static void mix_texts(struct outcome *o, const struct event *ev)
{
    switch (ev->kind) {
    case EVENT_ZONE_BEGIN:
        mix_location(o, ev->zone.payload);
        break;
    case EVENT_ZONE_TEXT:
    case EVENT_ZONE_NAME:
    case EVENT_APP_INFO:
        mix_view(o, ev->text);
        break;
    case EVENT_MESSAGE:
        mix_view(o, ev->message.text);
        break;
    case EVENT_FRAME_IMAGE:
        mix_view(o, ev->image.bytes);
        break;
    case EVENT_LOCK_NAME:
        mix_view(o, ev->lock.text);
        break;
    case EVENT_GPU_ZONE_BEGIN:
        mix_location(o, ev->gpu.payload);
        break;
    case EVENT_GPU_CONTEXT_NAME:
    case EVENT_GPU_NOTE_NAME:
        mix_view(o, ev->gpu.text);
        break;
    case EVENT_SECTION_SETUP:
    case EVENT_SECTION_ENTER:
        mix_view(o, ev->section.text);
        break;
    case EVENT_CALLSTACK_FRAME:
        mix_view(o, ev->frames.image);
        if (ev->frames.n > 0 && ev->frames.skip >= ev->frames.n)
            abort();
        for (unsigned i = 0; i < ev->frames.n; i++) {
            mix_view(o, ev->frames.inlines[i].function);
            mix_view(o, ev->frames.inlines[i].file);
        }
        break;
    case EVENT_SYMBOL:
        mix_view(o, ev->symbol.file);
        break;
    default:
        if (ev->kind >= EVENT_STRING && ev->kind <= EVENT_EXTERNAL_THREAD_NAME)
            mix_view(o, ev->name.text);
        if (ev->kind == EVENT_SYMBOL_CODE || ev->kind == EVENT_SOURCE_CODE)
            mix_view(o, ev->name.text);
    }
}

static int take_event(void *ctx, const struct event *ev, struct err *e)
{
    struct outcome *o = ctx;
    (void)e;
    if ((unsigned)ev->kind >= EVENT_KIND_COUNT)
        abort();
    o->events++;
    mix(o, &ev->kind, sizeof ev->kind);
    mix(o, &ev->thread, sizeof ev->thread);
    mix(o, &ev->time, sizeof ev->time);
    mix(o, &ev->callstack, sizeof ev->callstack);
    mix_texts(o, ev);
    return 0;
}

static int take_memory(void *ctx, const struct memory_event *events, size_t n, struct err *e)
{
    if (n == 0)
        abort();
    for (size_t i = 0; i < n; i++) {
        struct event ev = event_of_memory(&events[i]);
        if (ev.kind != EVENT_MEM_ALLOC && ev.kind != EVENT_MEM_FREE)
            abort();
        take_event(ctx, &ev, e);
    }
    return 0;
}

static uint64_t hash_stack(uint64_t h, const void *addresses, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        h = (h ^ (load_u64((const char *)addresses + 8 * i) & FRAME_ADDRESS_MASK)) * 0x100000001b3u;
    return h;
}

/* None is known; those that are handed over next must be the ones that were looked for. */
static void find_callstacks(void *ctx, struct sent_callstack *stacks, size_t n)
{
    struct outcome *o = ctx;
    if (n == 0 || n > WANTED_MAX)
        abort();
    for (size_t i = 0; i < n; i++) {
        if (stacks[i].n == 0)
            abort();
        stacks[i].id = 0;
        o->wanted[i].n = stacks[i].n;
        o->wanted[i].hash = hash_stack(1, stacks[i].addresses, stacks[i].n);
    }
    o->next_wanted = 0;
    o->wanted_count = n;
}

/*
 * Every stack is new: then its frames are asked for, which is what has something to go wrong. When
 * they come, and when custom frames come, between the events is left open: they have hashes of
 * their own.
 */
static int take_callstack(void *ctx, const uint64_t *frames, uint32_t n, uint32_t *id, bool *fresh,
                          struct err *e)
{
    struct outcome *o = ctx;
    (void)e;
    if (n == 0)
        abort();
    if (o->next_wanted < o->wanted_count) {
        if (o->wanted[o->next_wanted].n != n ||
            o->wanted[o->next_wanted].hash != hash_stack(1, frames, n))
            abort();
        o->next_wanted++;
    }
    for (uint32_t i = 0; i < n; i++)
        o->stack_hash = (o->stack_hash ^ frames[i]) * 0x100000001b3u;
    *id = ++o->stacks;
    *fresh = true;
    return 0;
}

static int take_custom_frame(void *ctx, struct view function, struct view file, uint32_t line,
                             uint64_t *frame, struct err *e)
{
    struct outcome *o = ctx;
    struct outcome one = {.hash = o->custom_hash};
    (void)e;
    mix_view(&one, function);
    mix_view(&one, file);
    o->custom_hash = one.hash;
    *frame = (uint64_t)1 << 62 | line;
    return 0;
}

/* Bytes of the item at `p`; 0 when it does not fit (the decoder has said so already). */
static size_t item_length(const struct wire_version *v, const uint8_t *p, size_t left)
{
    const struct wire_item *it = &v->items[*p];
    size_t n = it->size + wire_tail_size((enum wire_tail)it->tail);
    if (n > left)
        return 0;
    switch (it->tail) {
    case WIRE_TAIL_8:
        n += p[it->size];
        break;
    case WIRE_TAIL_16:
        n += load_u16(p + it->size);
        break;
    case WIRE_TAIL_16_PLUS_256:
        n += load_u16(p + it->size) + 256u;
        break;
    case WIRE_TAIL_32:
        n += load_u32(p + it->size);
        break;
    default:
        break;
    }
    return n <= left ? n : 0;
}

static int decode(struct decoder *d, const struct wire_version *v, const uint8_t *data, size_t size,
                  bool one_by_one)
{
    struct err e = {0};
    int rc = 0;
    while (size > 0 && rc == 0) {
        size_t n = one_by_one && *data < v->item_count ? item_length(v, data, size) : 0;
        if (n == 0)
            n = size;
        uint8_t *copy = malloc(n); /* gone after the call, as a frame is */
        if (!copy)
            abort();
        memcpy(copy, data, n);
        rc = decoder_frame(d, copy, n, &e);
        free(copy);
        if (rc < 0 && (e.code != ERR_INPUT || !e.text[0]))
            abort();
        data += n;
        size -= n;
    }
    return rc;
}

static int read_code(void *ctx, uint64_t address, struct view code, code_found_fn *found,
                     void *found_ctx, struct err *e)
{
    return instructions_walk(ctx, address, code, found, found_ctx, e);
}

static struct outcome run(const struct wire_version *v, const uint8_t *data, size_t size,
                          bool one_by_one)
{
    struct outcome o = {0};
    struct welcome w = {.timer_mul = 0.5, .init_begin = 1000, .cpu_arch = ARCH_X64, .exec_time = 1};
    struct query *q =
        query_new(&(struct query_config){.version = v, .space = 100, .ask = UINT32_MAX});
    struct instructions *instructions = instructions_new(CODE_X64);
    struct decoder *d =
        decoder_new(&(struct decoder_config){.version = v,
                                             .welcome = &w,
                                             .query = q,
                                             .sink = {.ctx = &o,
                                                      .event = take_event,
                                                      .memory = take_memory,
                                                      .callstack = take_callstack,
                                                      .find_callstacks = find_callstacks,
                                                      .custom_frame = take_custom_frame},
                                             .read_code = {instructions, read_code}});
    uint8_t packets[QUERY_PACKET_SIZE * 64];
    struct query_stats stats;
    if (!q || !d || !instructions)
        abort();
    o.rc = decode(d, v, data, size, one_by_one);
    while (query_flush(q, packets, sizeof packets) > 0)
        continue;
    query_stats(q, &stats);
    if (stats.flight > 100)
        abort();
    query_forget_patient(q);
    decoder_settled(d);
    decoder_free(d);
    instructions_free(instructions);
    query_free(q);
    return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const struct wire_version *v = &wire_versions[*data % wire_version_count];
    struct outcome whole = run(v, data + 1, size - 1, false);
    struct outcome parts = run(v, data + 1, size - 1, true);
    if (whole.rc != parts.rc || whole.events != parts.events || whole.hash != parts.hash ||
        whole.stack_hash != parts.stack_hash || whole.custom_hash != parts.custom_hash)
        abort();
    return 0;
}
