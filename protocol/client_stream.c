#include "protocol/client_stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/map.h"
#include "base/vec.h"
#include "protocol/encoder.h"

/* The longest text that every server reads, and the longest in a location with other fields. */
#define TEXT_MAX ((size_t)UINT16_MAX)
#define LOCATION_TEXT_MAX ((size_t)16384)

/* Of a call stack: its item has a 16-bit length in bytes. */
#define FRAMES_MAX ((size_t)UINT16_MAX / 8)

/* More than the fixed parts of a group of items. */
#define FIXED_MAX ((size_t)256)

#define NO_COLOR 0xFFFFFFu

/* How a frame set, found by its name, is used: continuous and discontinuous use must not mix. */
enum set_state { SET_NEW, SET_CONTINUOUS, SET_OPEN, SET_CLOSED };

struct known_stack {
    size_t first; /* in `addresses` */
    uint32_t n;
};

struct memory_ids {
    uint8_t plain, named, stack, stack_named;
};

struct client_stream {
    const struct wire_version *version;
    struct encoder *enc;
    VEC(struct known_stack) stacks; /* by id; n 0: unknown */
    VEC(uint64_t) addresses;
    uint64_t serial;  /* time reference of memory events */
    struct map zones; /* thread → open zones */
    struct map sets;  /* name of a frame set → enum set_state */
    struct map pools; /* pools that had an allocation */
    struct buf location;
    /* Ids of the frequent items, whose layout is the same in every protocol. */
    struct memory_ids alloc, free;
    uint8_t payload, serial_stack, pool_name;
    bool has_metadata, has_discard;
};

static uint8_t id_of(const struct wire_version *v, const char *name)
{
    return (uint8_t)wire_version_item(v, name);
}

static bool has_field(const struct wire_version *v, const char *item, const char *field)
{
    const struct wire_item_info *info = &v->info[wire_version_item(v, item)];
    for (unsigned i = 0; i < info->field_count; i++) {
        if (strcmp(info->fields[i].name, field) == 0)
            return true;
    }
    return false;
}

struct client_stream *client_stream_new(const struct wire_version *v)
{
    struct client_stream *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->version = v;
    s->enc = encoder_new(v);
    if (!s->enc) {
        free(s);
        return NULL;
    }
    encoder_set_independent(s->enc);
    s->alloc =
        (struct memory_ids){id_of(v, "MemAlloc"), id_of(v, "MemAllocNamed"),
                            id_of(v, "MemAllocCallstack"), id_of(v, "MemAllocCallstackNamed")};
    s->free = (struct memory_ids){id_of(v, "MemFree"), id_of(v, "MemFreeNamed"),
                                  id_of(v, "MemFreeCallstack"), id_of(v, "MemFreeCallstackNamed")};
    s->payload = id_of(v, "CallstackPayload");
    s->serial_stack = id_of(v, "CallstackSerial");
    s->pool_name = id_of(v, "MemNamePayload");
    s->has_metadata = has_field(v, "Message", "metadata");
    s->has_discard = wire_version_item(v, "MemDiscard") >= 0;
    return s;
}

void client_stream_free(struct client_stream *s)
{
    if (!s)
        return;
    encoder_free(s->enc);
    vec_release(&s->stacks);
    vec_release(&s->addresses);
    map_release(&s->zones);
    map_release(&s->sets);
    map_release(&s->pools);
    buf_release(&s->location);
    free(s);
}

bool client_stream_has_discard(const struct client_stream *s)
{
    return s->has_discard;
}

struct buf *client_stream_output(struct client_stream *s)
{
    return encoder_output(s->enc);
}

int client_stream_commit(struct client_stream *s, struct err *e)
{
    return encoder_commit(s->enc, e);
}

/* ---- call stacks */

int client_stream_callstack(struct client_stream *s, uint32_t id, const uint64_t *frames,
                            uint32_t n, struct err *e)
{
    const struct known_stack none = {0};
    while (s->stacks.len <= id) {
        if (!vec_push(&s->stacks, none))
            return err_no_memory(e, "call stacks");
    }
    if (s->stacks.at[id].n)
        return 0;
    if (n > FRAMES_MAX)
        n = FRAMES_MAX;
    if (!vec_reserve(&s->addresses, s->addresses.len + n))
        return err_no_memory(e, "call stacks");
    s->stacks.at[id] = (struct known_stack){s->addresses.len, n};
    for (uint32_t i = 0; i < n; i++)
        s->addresses.at[s->addresses.len++] = frames[i];
    return 0;
}

/* The call stack `id`; NULL when there is none. */
static const struct known_stack *stack_of(const struct client_stream *s, uint32_t id)
{
    return id < s->stacks.len && s->stacks.at[id].n ? &s->stacks.at[id] : NULL;
}

static size_t stack_bytes(const struct known_stack *k)
{
    return k ? 8 * (size_t)k->n : 0;
}

/*
 * Writes the addresses and the item that takes them: the next one of the serial queue or of the
 * thread.
 */
static int put_stack(struct client_stream *s, const struct known_stack *k, uint8_t taker,
                     struct err *e)
{
    uint8_t item[11 + 8 * FRAMES_MAX];
    if (!k)
        return 0;
    item[0] = s->payload;
    store_u64(item + 1, 0);
    store_u16(item + 9, (uint16_t)stack_bytes(k));
    for (uint32_t i = 0; i < k->n; i++)
        store_u64(item + 11 + 8 * (size_t)i, s->addresses.at[k->first + i]);
    if (encoder_append(s->enc, item, 11 + stack_bytes(k), e) != 0)
        return -1;
    return encoder_append(s->enc, &taker, 1, e);
}

/* ---- memory */

static uint8_t choose(const struct memory_ids *ids, bool stack, bool named)
{
    if (stack)
        return named ? ids->stack_named : ids->stack;
    return named ? ids->named : ids->plain;
}

static int put_memory(struct client_stream *s, const struct event *ev, struct err *e)
{
    const struct known_stack *k = stack_of(s, ev->callstack);
    bool alloc = ev->kind == EVENT_MEM_ALLOC, named = ev->mem.pool != 0;
    uint8_t item[27] = {choose(alloc ? &s->alloc : &s->free, k != NULL, named)}, name[9], size[8];
    if (alloc && named && s->has_discard && !map_add(&s->pools, ev->mem.pool, NULL))
        return err_no_memory(e, "pools");
    if (encoder_keep_together(s->enc, stack_bytes(k) + FIXED_MAX, e) != 0 ||
        put_stack(s, k, s->serial_stack, e) != 0)
        return -1;
    name[0] = s->pool_name;
    store_u64(name + 1, ev->mem.pool);
    if (named && encoder_append(s->enc, name, sizeof name, e) != 0)
        return -1;
    store_u64(item + 1, (uint64_t)ev->time - s->serial);
    store_u32(item + 9, (uint32_t)ev->thread);
    store_u64(item + 13, ev->mem.ptr);
    store_u64(size, ev->mem.size);
    memcpy(item + 21, size, 6);
    s->serial = (uint64_t)ev->time;
    return encoder_append(s->enc, item, alloc ? 27 : 21, e);
}

/* Servers lose track of time at a discard of a pool unknown to them. */
static int put_discard(struct client_stream *s, const struct event *ev, struct err *e)
{
    if (!s->has_discard || (ev->mem.pool && !map_find(&s->pools, ev->mem.pool)))
        return 0;
    const struct encoder_field fields[] = {ENC_INT("time", (uint64_t)ev->time - s->serial),
                                           ENC_INT("thread", (uint32_t)ev->thread),
                                           ENC_INT("name", ev->mem.pool)};
    s->serial = (uint64_t)ev->time;
    return encoder_item(s->enc, "MemDiscard", fields, 3, (struct view){0}, e);
}

/* ---- items of a thread: its time reference restarts with each context */

static int put_context(struct client_stream *s, uint64_t thread, struct err *e)
{
    const struct encoder_field fields[] = {ENC_INT("thread", (uint32_t)thread)};
    return encoder_item(s->enc, "ThreadContext", fields, 1, (struct view){0}, e);
}

static struct view cut(struct view text, size_t most)
{
    return (struct view){text.p, text.len < most ? text.len : most};
}

/* Texts in a source location end with a NUL. */
static void put_location_text(struct buf *b, struct view text, bool last)
{
    text = cut(text, LOCATION_TEXT_MAX);
    const char *zero = text.len ? memchr(text.p, 0, text.len) : NULL;
    buf_put(b, text.p, zero ? (size_t)(zero - text.p) : text.len);
    if (!last)
        buf_u8(b, 0);
}

static int put_zone_begin(struct client_stream *s, const struct event *ev, struct err *e)
{
    const struct known_stack *k = stack_of(s, ev->callstack);
    const struct event_location *l = ev->zone.payload;
    struct buf *b = &s->location;
    uint64_t *open = l ? map_add(&s->zones, ev->thread, NULL) : NULL;
    if (!l)
        return 0;
    buf_clear(b);
    buf_u32(b, l->color);
    buf_u32(b, l->line);
    put_location_text(b, l->function, false);
    put_location_text(b, l->file, false);
    put_location_text(b, l->name, true);
    if (!open || b->failed)
        return err_no_memory(e, "a zone");
    (*open)++;
    if (encoder_keep_together(s->enc, b->len + stack_bytes(k) + FIXED_MAX, e) != 0 ||
        put_context(s, ev->thread, e) != 0 ||
        put_stack(s, k, id_of(s->version, "Callstack"), e) != 0 ||
        encoder_item(s->enc, "SourceLocationPayload", NULL, 0,
                     (struct view){(const char *)b->data, b->len}, e) != 0)
        return -1;
    const struct encoder_field fields[] = {ENC_INT("time", ev->time)};
    return encoder_item(s->enc, k ? "ZoneBeginAllocSrcLocCallstack" : "ZoneBeginAllocSrcLoc",
                        fields, 1, (struct view){0}, e);
}

static int put_zone_end(struct client_stream *s, uint64_t thread, int64_t time, struct err *e)
{
    char item[16];
    struct encoder_field field = ENC_INT("time", 0);
    snprintf(item, sizeof item, "ZoneEnd%s",
             encoder_time_form(s->version, "ZoneEnd", time, &field.bits));
    if (encoder_keep_together(s->enc, FIXED_MAX, e) != 0 || put_context(s, thread, e) != 0)
        return -1;
    return encoder_item(s->enc, item, &field, 1, (struct view){0}, e);
}

static int put_known_zone_end(struct client_stream *s, const struct event *ev, struct err *e)
{
    uint64_t *open = map_find(&s->zones, ev->thread);
    if (!open || *open == 0)
        return 0;
    (*open)--;
    return put_zone_end(s, ev->thread, ev->time, e);
}

static int put_zone_text(struct client_stream *s, const struct event *ev, struct err *e)
{
    const uint64_t *open = map_find(&s->zones, ev->thread);
    struct view text = cut(ev->text, TEXT_MAX);
    if (!open || *open == 0)
        return 0;
    if (encoder_keep_together(s->enc, text.len + FIXED_MAX, e) != 0 ||
        put_context(s, ev->thread, e) != 0 || encoder_string(s->enc, false, text, e) != 0)
        return -1;
    return encoder_item(s->enc, "ZoneText", NULL, 0, (struct view){0}, e);
}

static int put_message(struct client_stream *s, const struct event *ev, struct err *e)
{
    static const char *const names[2][2] = {{"Message", "MessageCallstack"},
                                            {"MessageColor", "MessageColorCallstack"}};
    const struct known_stack *k = stack_of(s, ev->callstack);
    struct view text = cut(ev->message.text, TEXT_MAX);
    bool colored = ev->message.color != NO_COLOR;
    struct encoder_field fields[5] = {ENC_INT("time", ev->time)};
    size_t n = 1;
    if (ev->message.literal)
        return 0;
    if (colored) {
        fields[n++] = ENC_INT("r", ev->message.color >> 16 & 0xFF);
        fields[n++] = ENC_INT("g", ev->message.color >> 8 & 0xFF);
        fields[n++] = ENC_INT("b", ev->message.color & 0xFF);
    }
    if (s->has_metadata)
        fields[n++] =
            ENC_INT("metadata", (ev->message.source & 0xF) | (ev->message.severity & 0xF) << 4);
    if (encoder_keep_together(s->enc, text.len + stack_bytes(k) + FIXED_MAX, e) != 0 ||
        put_context(s, ev->thread, e) != 0 ||
        put_stack(s, k, id_of(s->version, "Callstack"), e) != 0 ||
        encoder_string(s->enc, false, text, e) != 0)
        return -1;
    return encoder_item(s->enc, names[colored][k != NULL], fields, n, (struct view){0}, e);
}

static int put_app_info(struct client_stream *s, const struct event *ev, struct err *e)
{
    const struct encoder_field fields[] = {ENC_INT("time", ev->time)};
    struct view text = cut(ev->text, TEXT_MAX);
    if (encoder_keep_together(s->enc, text.len + FIXED_MAX, e) != 0 ||
        encoder_string(s->enc, false, text, e) != 0)
        return -1;
    return encoder_item(s->enc, "MessageAppInfo", fields, 1, (struct view){0}, e);
}

static int put_plot(struct client_stream *s, const struct event *ev, struct err *e)
{
    const struct encoder_field fields[] = {
        ENC_INT("name", ev->plot.name), ENC_INT("time", ev->time), ENC_REAL("val", ev->plot.value)};
    if (encoder_keep_together(s->enc, FIXED_MAX, e) != 0 || put_context(s, ev->thread, e) != 0)
        return -1;
    return encoder_item(s->enc, "PlotDataDouble", fields, 3, (struct view){0}, e);
}

static int put_plot_config(struct client_stream *s, const struct event *ev, struct err *e)
{
    const struct encoder_field fields[] = {
        ENC_INT("name", ev->plot_config.name), ENC_INT("type", ev->plot_config.type),
        ENC_INT("step", ev->plot_config.step), ENC_INT("fill", ev->plot_config.fill),
        ENC_INT("color", ev->plot_config.color)};
    if (encoder_keep_together(s->enc, FIXED_MAX, e) != 0)
        return -1;
    return encoder_item(s->enc, "PlotConfig", fields, 5, (struct view){0}, e);
}

/* ---- frames */

static int put_frame(struct client_stream *s, const struct event *ev, struct err *e)
{
    uint64_t *state = map_add(&s->sets, ev->frame_mark.name, NULL);
    const char *item = NULL;
    if (!state)
        return err_no_memory(e, "frame sets");
    if (ev->kind == EVENT_FRAME_MARK && *state <= SET_CONTINUOUS) {
        *state = SET_CONTINUOUS;
        item = "FrameMarkMsg";
    } else if (ev->kind == EVENT_FRAME_START && (*state == SET_NEW || *state == SET_CLOSED)) {
        *state = SET_OPEN;
        item = "FrameMarkMsgStart";
    } else if (ev->kind == EVENT_FRAME_END && *state == SET_OPEN) {
        *state = SET_CLOSED;
        item = "FrameMarkMsgEnd";
    }
    const struct encoder_field fields[] = {ENC_INT("time", ev->time),
                                           ENC_INT("name", ev->frame_mark.name)};
    return item ? encoder_item(s->enc, item, fields, 2, (struct view){0}, e) : 0;
}

int client_stream_event(struct client_stream *s, const struct event *ev, struct err *e)
{
    switch (ev->kind) {
    case EVENT_MEM_ALLOC:
    case EVENT_MEM_FREE:
        return put_memory(s, ev, e);
    case EVENT_MEM_DISCARD:
        return put_discard(s, ev, e);
    case EVENT_ZONE_BEGIN:
        return put_zone_begin(s, ev, e);
    case EVENT_ZONE_END:
        return put_known_zone_end(s, ev, e);
    case EVENT_ZONE_TEXT:
        return put_zone_text(s, ev, e);
    case EVENT_MESSAGE:
        return put_message(s, ev, e);
    case EVENT_APP_INFO:
        return put_app_info(s, ev, e);
    case EVENT_PLOT:
        return put_plot(s, ev, e);
    case EVENT_PLOT_CONFIG:
        return put_plot_config(s, ev, e);
    case EVENT_FRAME_MARK:
    case EVENT_FRAME_START:
    case EVENT_FRAME_END:
        return put_frame(s, ev, e);
    default:
        return 0;
    }
}

int client_stream_end(struct client_stream *s, int64_t time, struct err *e)
{
    const struct map_slot *slot;
    size_t iter = 0;
    while ((slot = map_next(&s->zones, &iter))) {
        for (uint64_t open = slot->value; open; open--) {
            if (put_zone_end(s, slot->key, time, e) != 0)
                return -1;
        }
    }
    map_release(&s->zones);
    s->zones = (struct map){0};
    /* Goes in a separate frame, as clients send it. */
    if (encoder_commit(s->enc, e) != 0 ||
        encoder_item(s->enc, "Terminate", NULL, 0, (struct view){0}, e) != 0)
        return -1;
    return encoder_commit(s->enc, e);
}
