#ifndef TIDEMARK_TEST_PROTOCOL_SUPPORT_H
#define TIDEMARK_TEST_PROTOCOL_SUPPORT_H

/*
 * For tests of protocol/: a sink that turns every event into a line of text, a decoder with all
 * that it needs, and recordings. Allocation failures end the test program.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/vec.h"
#include "protocol/decoder.h"
#include "protocol/encoder.h"
#include "protocol/wire_frame.h"

/* ---- a sink that remembers */

struct stack_copy {
    uint64_t *frames;
    uint32_t n;
};

struct log_sink {
    bool keep_lines;     /* else only the last one */
    struct buf line;     /* the last event */
    struct buf lines;    /* all of them, one per line, when kept */
    struct buf sources;  /* "number name" of EVENT_SOURCE_NAME, one per line */
    VEC(uint64_t) chain; /* hash of all events up to each */
    VEC(struct stack_copy) stacks;
    VEC(uint32_t) buckets; /* stack ids by hash; 0 = free */
    struct map keys;       /* callstack_key.check → stack id */
    uint64_t counts[EVENT_KIND_COUNT];
    uint64_t fail_after; /* > 0: the sink refuses this event */
    size_t stacks_most;  /* > 0: it has memory for so many stacks */
};

static inline uint64_t hash_bytes(uint64_t h, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}

/* buf_printf in one go: sanitizers make every pass slow, and no event has 400 bytes of numbers. */
static inline void __attribute__((format(printf, 2, 3)))
print_some(struct buf *b, const char *fmt, ...)
{
    char *p = (char *)buf_reserve(b, 400);
    assert_non_null(p);
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(p, 400, fmt, ap);
    va_end(ap);
    assert_true(n >= 0 && n < 400);
    b->len += (size_t)n;
}

static inline void print_text(struct buf *b, const char *key, struct view text)
{
    print_some(b, " %s=\"", key);
    buf_put(b, text.p, text.len);
    buf_puts(b, "\"");
}

static inline void print_location(struct buf *b, uint64_t srcloc, const struct event_location *l)
{
    if (!l) {
        print_some(b, " srcloc=%" PRIu64, srcloc);
        return;
    }
    print_some(b, " line=%u color=%u", l->line, l->color);
    print_text(b, "function", l->function);
    print_text(b, "file", l->file);
    print_text(b, "name", l->name);
}

static inline void print_program_event(struct buf *b, const struct event *ev)
{
    switch (ev->kind) {
    case EVENT_MEM_ALLOC:
    case EVENT_MEM_FREE:
    case EVENT_MEM_DISCARD:
        print_some(b, " pool=%" PRIu64 " ptr=%" PRIu64 " size=%" PRIu64, ev->mem.pool, ev->mem.ptr,
                   ev->mem.size);
        break;
    case EVENT_ZONE_BEGIN:
        print_location(b, ev->zone.srcloc, ev->zone.payload);
        break;
    case EVENT_ZONE_TEXT:
    case EVENT_ZONE_NAME:
    case EVENT_APP_INFO:
        print_text(b, "text", ev->text);
        break;
    case EVENT_ZONE_COLOR:
    case EVENT_ZONE_VALUE:
    case EVENT_ZONE_VALIDATION:
        print_some(b, " number=%" PRIu64, ev->number);
        break;
    case EVENT_MESSAGE:
        print_some(b, " literal=%" PRIu64 " color=%u source=%u severity=%u", ev->message.literal,
                   ev->message.color, ev->message.source, ev->message.severity);
        print_text(b, "text", ev->message.text);
        break;
    case EVENT_FRAME_MARK:
    case EVENT_FRAME_START:
    case EVENT_FRAME_END:
    case EVENT_FRAME_VSYNC:
        print_some(b, " name=%" PRIu64, ev->frame_mark.name);
        break;
    case EVENT_FRAME_IMAGE:
        print_some(b, " frame=%u w=%u h=%u flip=%u bytes=%zu", ev->image.frame, ev->image.w,
                   ev->image.h, ev->image.flip, ev->image.bytes.len);
        break;
    case EVENT_PLOT:
        print_some(b, " name=%" PRIu64 " value=%.17g", ev->plot.name, ev->plot.value);
        break;
    case EVENT_PLOT_CONFIG:
        print_some(b, " name=%" PRIu64 " type=%u step=%u fill=%u color=%u", ev->plot_config.name,
                   ev->plot_config.type, ev->plot_config.step, ev->plot_config.fill,
                   ev->plot_config.color);
        break;
    case EVENT_LOCK_ANNOUNCE:
    case EVENT_LOCK_TERMINATE:
    case EVENT_LOCK_WAIT:
    case EVENT_LOCK_OBTAIN:
    case EVENT_LOCK_RELEASE:
    case EVENT_LOCK_MARK:
    case EVENT_LOCK_NAME:
        print_some(b, " id=%u type=%u shared=%d has_thread=%d srcloc=%" PRIu64, ev->lock.id,
                   ev->lock.type, ev->lock.shared, ev->lock.has_thread, ev->lock.srcloc);
        print_text(b, "text", ev->lock.text);
        break;
    default:
        break;
    }
}

static inline void print_system_event(struct buf *b, const struct event *ev)
{
    switch (ev->kind) {
    case EVENT_GPU_CONTEXT:
        print_some(b, " context=%u gpu=%" PRId64 " period=%.9g flags=%u type=%u",
                   ev->gpu_context.context, ev->gpu_context.gpu_time,
                   (double)ev->gpu_context.period, ev->gpu_context.flags, ev->gpu_context.type);
        break;
    case EVENT_GPU_ZONE_BEGIN:
    case EVENT_GPU_ZONE_END:
        print_some(b, " context=%u query=%u serial=%d", ev->gpu.context, ev->gpu.query,
                   ev->gpu.serial);
        if (ev->gpu.caller)
            print_some(b, " caller=%u", (unsigned)ev->gpu.caller);
        if (ev->kind == EVENT_GPU_ZONE_BEGIN)
            print_location(b, ev->gpu.srcloc, ev->gpu.payload);
        break;
    case EVENT_GPU_CONTEXT_NAME:
    case EVENT_GPU_TIME:
    case EVENT_GPU_CALIBRATION:
    case EVENT_GPU_TIME_SYNC:
    case EVENT_GPU_NOTE_NAME:
    case EVENT_GPU_NOTE:
        print_some(b,
                   " context=%u query=%u gpu=%" PRId64 " delta=%" PRId64 " note=%" PRId64
                   " value=%.17g",
                   ev->gpu.context, ev->gpu.query, ev->gpu.gpu_time, ev->gpu.cpu_delta,
                   ev->gpu.note, ev->gpu.value);
        print_text(b, "text", ev->gpu.text);
        break;
    case EVENT_FIBER_ENTER:
    case EVENT_FIBER_LEAVE:
    case EVENT_THREAD_GROUP_HINT:
        print_some(b, " fiber=%" PRIu64 " on=%" PRIu64 " hint=%d", ev->fiber.fiber,
                   ev->fiber.thread, ev->fiber.group_hint);
        break;
    case EVENT_SECTION_SETUP:
    case EVENT_SECTION_ENTER:
    case EVENT_SECTION_LEAVE:
        print_some(b, " id=%u category=%u", ev->section.id, ev->section.category);
        print_text(b, "text", ev->section.text);
        break;
    case EVENT_CONTEXT_SWITCH:
    case EVENT_THREAD_WAKEUP:
        buf_printf(
            b, " old=%u new=%u cpu=%d%u reason=%u state=%u cstate=%u prio=%d,%d adjust=%d,%d",
            ev->sched.old_thread, ev->sched.new_thread, ev->sched.has_cpu, ev->sched.cpu,
            ev->sched.reason, ev->sched.state, ev->sched.previous_cstate, ev->sched.new_priority,
            ev->sched.old_priority, ev->sched.adjust_reason, ev->sched.adjust_increment);
        break;
    case EVENT_TID_TO_PID:
        print_some(b, " tid=%" PRIu64 " pid=%" PRIu64, ev->pair.key, ev->pair.value);
        break;
    case EVENT_HW_SAMPLE:
        print_some(b, " ip=%" PRIu64 " counter=%u no_time=%d", ev->hw.ip, ev->hw.counter,
                   ev->hw.no_time);
        break;
    case EVENT_SYS_TIME:
        print_some(b, " value=%.9g", ev->number_f);
        break;
    case EVENT_SYS_POWER:
        print_some(b, " name=%" PRIu64 " delta=%" PRIu64, ev->power.name, ev->power.delta);
        break;
    case EVENT_CPU_TOPOLOGY:
        print_some(b, " package=%u die=%u core=%u cpu=%u", ev->topology.package, ev->topology.die,
                   ev->topology.core, ev->topology.cpu);
        break;
    case EVENT_PARAM:
        print_some(b, " id=%u name=%" PRIu64 " type=%u value=%d", ev->param.id, ev->param.name,
                   ev->param.type, ev->param.value);
        break;
    case EVENT_CRASH_REPORT:
        print_some(b, " text=%" PRIu64, ev->crash.text);
        break;
    default:
        break;
    }
}

static inline void print_reply(struct buf *b, const struct event *ev)
{
    switch (ev->kind) {
    case EVENT_STRING:
    case EVENT_THREAD_NAME:
    case EVENT_PLOT_NAME:
    case EVENT_FRAME_NAME:
    case EVENT_FIBER_NAME:
    case EVENT_EXTERNAL_NAME:
    case EVENT_EXTERNAL_THREAD_NAME:
    case EVENT_SYMBOL_CODE:
    case EVENT_SOURCE_CODE:
    case EVENT_SOURCE_CODE_MISSING:
        print_some(b, " key=%" PRIu64, ev->name.key);
        print_text(b, "text", ev->name.text);
        break;
    case EVENT_SOURCE_LOCATION:
        print_some(b,
                   " pointer=%" PRIu64 " name=%" PRIu64 " function=%" PRIu64 " file=%" PRIu64
                   " line=%u color=%u",
                   ev->srcloc_reply.pointer, ev->srcloc_reply.name, ev->srcloc_reply.function,
                   ev->srcloc_reply.file, ev->srcloc_reply.line, ev->srcloc_reply.color);
        break;
    case EVENT_CALLSTACK_FRAME:
        print_some(b, " address=%" PRIu64 " skip=%u", ev->frames.address, ev->frames.skip);
        print_text(b, "image", ev->frames.image);
        for (unsigned i = 0; i < ev->frames.n; i++) {
            const struct event_inline *f = &ev->frames.inlines[i];
            print_some(b, " [line=%u symbol=%" PRIu64 "+%u", f->line, f->symbol, f->symbol_len);
            print_text(b, "function", f->function);
            print_text(b, "file", f->file);
            buf_puts(b, "]");
        }
        break;
    case EVENT_SYMBOL:
        print_some(b, " address=%" PRIu64 " line=%u", ev->symbol.address, ev->symbol.line);
        print_text(b, "file", ev->symbol.file);
        break;
    default:
        break;
    }
}

/* Every field of an event as text: "KIND cs=… thread=… t=… …". */
static inline void print_event(struct buf *b, const struct event *ev)
{
    print_some(b, "%d cs=%u thread=%" PRIu64 " t=%" PRId64, (int)ev->kind, ev->callstack,
               ev->thread, ev->time);
    print_program_event(b, ev);
    print_system_event(b, ev);
    print_reply(b, ev);
}

static inline int log_event(void *ctx, const struct event *ev, struct err *e)
{
    struct log_sink *s = ctx;
    if (ev->kind == EVENT_SOURCE_NAME) { /* comes beside others; has tests of its own */
        buf_printf(&s->sources, "%" PRIu64 " %.*s\n", ev->name.key, (int)ev->name.text.len,
                   ev->name.text.p);
        return 0;
    }
    if (s->fail_after && s->chain.len + 1 == s->fail_after)
        return err_set(e, ERR_OUTPUT, "the sink is full");
    s->counts[ev->kind]++;
    buf_clear(&s->line);
    print_event(&s->line, ev);
    assert_false(s->line.failed);
    uint64_t h = s->chain.len ? s->chain.at[s->chain.len - 1] : 0xcbf29ce484222325u;
    assert_true(vec_push(&s->chain, hash_bytes(h, s->line.data, s->line.len)));
    if (s->keep_lines) {
        buf_put(&s->lines, s->line.data, s->line.len);
        buf_puts(&s->lines, "\n");
    }
    return 0;
}

static inline int log_memory(void *ctx, const struct memory_event *events, size_t n, struct err *e)
{
    assert_true(n >= 1);
    for (size_t i = 0; i < n; i++) {
        struct event ev = event_of_memory(&events[i]);
        assert_true(ev.kind == EVENT_MEM_ALLOC || ev.kind == EVENT_MEM_FREE);
        if (log_event(ctx, &ev, e) != 0)
            return -1;
    }
    return 0;
}

static inline uint64_t log_key(const uint64_t *frames, uint32_t n)
{
    return hash_bytes(2, frames, n * sizeof *frames);
}

static inline uint32_t *find_bucket(struct log_sink *s, const uint64_t *frames, uint32_t n)
{
    size_t mask = s->buckets.len - 1;
    for (size_t i = hash_bytes(1, frames, n * sizeof *frames) & mask;; i = (i + 1) & mask) {
        uint32_t id = s->buckets.at[i];
        if (id == 0 || (s->stacks.at[id - 1].n == n &&
                        memcmp(s->stacks.at[id - 1].frames, frames, n * sizeof *frames) == 0))
            return &s->buckets.at[i];
    }
}

static inline int log_callstack(void *ctx, const uint64_t *frames, uint32_t n, uint32_t *id,
                                bool *fresh, struct err *e)
{
    struct log_sink *s = ctx;
    assert_true(n >= 1);
    if (s->buckets.len == 0) {
        s->buckets.len = 1 << 12; /* no test has so many stacks */
        s->buckets.at = calloc(s->buckets.len, sizeof *s->buckets.at);
        assert_non_null(s->buckets.at);
    }
    assert_true(s->stacks.len < s->buckets.len / 2);
    uint32_t *bucket = find_bucket(s, frames, n);
    *fresh = *bucket == 0;
    if (*fresh && s->stacks_most && s->stacks.len == s->stacks_most)
        return err_no_memory(e, "call stacks");
    if (*fresh) {
        struct stack_copy copy = {malloc(n * sizeof *frames), n};
        assert_non_null(copy.frames);
        memcpy(copy.frames, frames, n * sizeof *frames);
        assert_true(vec_push(&s->stacks, copy));
        *bucket = (uint32_t)s->stacks.len;
    }
    *id = *bucket;
    uint64_t *known = map_add(&s->keys, log_key(frames, n), NULL);
    assert_non_null(known);
    *known = *id;
    return 0;
}

/* Those of up to 64 addresses: deeper ones are always handed over. */
static inline void log_find_callstacks(void *ctx, struct sent_callstack *stacks, size_t n)
{
    const struct log_sink *s = ctx;
    uint64_t frames[64];
    assert_true(n >= 1);
    for (size_t i = 0; i < n; i++) {
        struct sent_callstack *sent = &stacks[i];
        assert_true(sent->n >= 1);
        sent->id = 0;
        if (sent->n > sizeof frames / sizeof *frames)
            continue;
        memcpy(frames, sent->addresses, sent->n * sizeof *frames);
        for (uint32_t k = 0; k < sent->n; k++)
            frames[k] &= FRAME_ADDRESS_MASK;
        const uint64_t *id = map_find(&s->keys, log_key(frames, sent->n));
        assert_true(!id || s->stacks.at[*id - 1].n == sent->n);
        sent->id = id ? (uint32_t)*id : 0;
    }
}

static inline int log_custom_frame(void *ctx, struct view function, struct view file, uint32_t line,
                                   uint64_t *frame, struct err *e)
{
    (void)ctx;
    (void)e;
    uint64_t h = hash_bytes(line, function.p, function.len);
    *frame = (uint64_t)1 << 62 | (hash_bytes(h, file.p, file.len) & 0xffffff);
    return 0;
}

static inline void log_sink_release(struct log_sink *s)
{
    for (size_t i = 0; i < s->stacks.len; i++)
        free(s->stacks.at[i].frames);
    vec_release(&s->stacks);
    vec_release(&s->buckets);
    map_release(&s->keys);
    vec_release(&s->chain);
    buf_release(&s->line);
    buf_release(&s->lines);
    buf_release(&s->sources);
}

/* ---- a decoder with everything around it */

struct rig {
    const struct wire_version *version;
    struct welcome welcome;
    struct log_sink log;
    struct query *query;
    struct decoder *decoder;
    struct err err;
};

/* One tick is one nanosecond and time begins at 0 unless `welcome` says otherwise. */
static inline void rig_init_as(struct rig *r, uint32_t protocol, const struct welcome *welcome,
                               bool as_released)
{
    *r = (struct rig){.version = wire_version_find(protocol)};
    assert_non_null(r->version);
    r->welcome = welcome ? *welcome : (struct welcome){.timer_mul = 1, .cpu_arch = ARCH_X64};
    r->query = query_new(&(struct query_config){
        .version = r->version, .space = QUERY_SPACE_MAX, .ask = QUERY_ASK_DEFAULT});
    r->decoder =
        decoder_new(&(struct decoder_config){.version = r->version,
                                             .welcome = &r->welcome,
                                             .query = r->query,
                                             .as_released = as_released,
                                             .sink = {.ctx = &r->log,
                                                      .event = log_event,
                                                      .memory = log_memory,
                                                      .callstack = log_callstack,
                                                      .find_callstacks = log_find_callstacks,
                                                      .custom_frame = log_custom_frame}});
    assert_non_null(r->query);
    assert_non_null(r->decoder);
}

static inline void rig_init(struct rig *r, uint32_t protocol, const struct welcome *welcome)
{
    rig_init_as(r, protocol, welcome, false);
}

static inline void rig_release(struct rig *r)
{
    decoder_free(r->decoder);
    query_free(r->query);
    log_sink_release(&r->log);
}

/* Decodes the items in `b` as one frame and empties it; fails the test on an error. */
static inline void rig_decode(struct rig *r, struct buf *b)
{
    assert_false(b->failed);
    if (decoder_frame(r->decoder, b->data, b->len, &r->err) < 0)
        fail_msg("%s", r->err.text);
    buf_clear(b);
}

/* The text of the last event. */
static inline const char *rig_line(struct rig *r)
{
    return buf_str(&r->log.line);
}

/* Appends an item by name; the fields follow as ENC_INT and ENC_REAL. */
#define PUT(R, B, NAME, TEXT, ...)                                                                 \
    put_item((R)->version, B, NAME, TEXT, (struct encoder_field[]){__VA_ARGS__, {.name = NULL}})
#define PUT0(R, B, NAME) put_item((R)->version, B, NAME, (struct view){0}, NULL)

static inline void put_item(const struct wire_version *v, struct buf *b, const char *name,
                            struct view tail, const struct encoder_field *fields)
{
    struct err e = {0};
    size_t n = 0;
    while (fields && fields[n].name)
        n++;
    if (encoder_write_item(v, b, name, fields, n, tail, &e) < 0)
        fail_msg("%s", e.text);
}

/* A text in the form that the protocol wants for its length. */
static inline void put_string(const struct wire_version *v, struct buf *b, bool second,
                              struct view text)
{
    bool has_short = wire_version_item(v, "SingleStringData8") >= 0 && text.len <= 255;
    const char *name = second ? (has_short ? "SecondStringData8" : "SecondStringData")
                              : (has_short ? "SingleStringData8" : "SingleStringData");
    put_item(v, b, name, text, NULL);
}

/* ---- recordings */

struct recording {
    uint8_t *bytes;
    size_t len;
    uint32_t protocol;
    size_t stream; /* offset of the first frame */
    struct welcome welcome;
};

static inline uint8_t *read_whole_file(const char *path, size_t *len)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        fail_msg("%s: cannot open; run from the repository root", path);
    struct buf b = {0};
    uint8_t chunk[65536];
    for (size_t n; (n = fread(chunk, 1, sizeof chunk, f)) > 0;)
        buf_put(&b, chunk, n);
    assert_false(b.failed);
    fclose(f);
    *len = b.len;
    return b.data;
}

/* fixtures/wire/TAG/NAME.c2s.bin; the protocol from its .s2c.bin. */
static inline void recording_load(struct recording *r, const char *tag, const char *name)
{
    char path[256];
    size_t n;
    struct err e = {0};
    snprintf(path, sizeof path, "fixtures/wire/%s/%s.s2c.bin", tag, name);
    uint8_t *request = read_whole_file(path, &n);
    assert_true(n >= HANDSHAKE_REQUEST_SIZE);
    assert_int_equal(handshake_request_parse(request, &r->protocol, &e), 0);
    free(request);
    snprintf(path, sizeof path, "fixtures/wire/%s/%s.c2s.bin", tag, name);
    r->bytes = read_whole_file(path, &r->len);
    const struct wire_version *v = wire_version_find(r->protocol);
    assert_non_null(v);
    size_t welcome = wire_version_welcome_size(v);
    assert_true(r->len > 1 + welcome);
    assert_int_equal(r->bytes[0], HANDSHAKE_WELCOME);
    assert_int_equal(welcome_parse(v, r->bytes + 1, welcome, &r->welcome, &e), 0);
    r->stream = 1 + welcome + (r->welcome.flags & WELCOME_ON_DEMAND ? ON_DEMAND_SIZE : 0);
}

static inline void recording_release(struct recording *r)
{
    free(r->bytes);
}

/*
 * Feeds stream bytes in pieces of at most `piece` through frames into the decoder. 0, or -1 with
 * the rig's err filled.
 */
static inline int rig_feed(struct rig *r, struct frame_reader *frames, const uint8_t *bytes,
                           size_t len, size_t piece)
{
    struct wire_frame frame;
    while (len > 0) {
        size_t n = len < piece ? len : piece;
        const uint8_t *p = bytes;
        size_t left = n;
        int rc;
        while ((rc = frame_reader_feed(frames, &p, &left, &frame, &r->err)) == 1)
            if (decoder_frame(r->decoder, frame.bytes, frame.len, &r->err) < 0)
                return -1;
        if (rc < 0)
            return -1;
        bytes += n;
        len -= n;
    }
    return 0;
}

#endif
