/* A program's explicit instrumentation: zones, messages, locks, frame marks, plots, sections. */

#include "protocol/decoder_state.h"

#include <inttypes.h>
#include <string.h>

#include "base/cursor.h"

/* Bytes b, g, r → 0xRRGGBB. */
static uint32_t field_color(const struct wire_item *it, const uint8_t *p, enum wire_slot slot)
{
    return load_u24(p + it->at[slot]);
}

/* ---- zones */

/* Layout: 0xRRGGBB, line, function NUL, file NUL, name to the end. */
static int parse_location(struct decoder *d, struct view bytes, struct event_location *location)
{
    struct cursor c = cursor_over(bytes.p, bytes.len);
    location->color = cursor_u32(&c);
    location->line = cursor_u32(&c);
    struct view *texts[] = {&location->function, &location->file};
    for (int i = 0; i < 2 && !c.short_read; i++) {
        const uint8_t *nul = cursor_left(&c) ? memchr(c.pos, 0, cursor_left(&c)) : NULL;
        if (!nul)
            return decoder_fail(d, "its %zu bytes end within the %s name", bytes.len,
                                i == 0 ? "function" : "file");
        texts[i]->len = (size_t)(nul - c.pos);
        texts[i]->p = (const char *)cursor_take(&c, texts[i]->len + 1);
    }
    if (c.short_read)
        return decoder_fail(d, "%zu bytes are too few for a source location", bytes.len);
    location->name = (struct view){(const char *)c.pos, cursor_left(&c)};
    return 0;
}

HANDLER(on_srcloc_payload)
{
    struct event_location location = {0};
    if (parse_location(d, tail, &location) < 0 ||
        sources_text(d, location.file, (struct view){NULL, 0}) < 0)
        return -1;
    return slot_fill(d, &d->location, "SourceLocationPayload", tail);
}

int decoder_take_location(struct decoder *d, const struct wire_item *it, const uint8_t *p,
                          enum wire_slot slot, uint64_t *srcloc, struct event_location *payload)
{
    struct view bytes;
    if (it->flags & WIRE_F_PAYLOAD)
        return slot_take(d, &d->location, "SourceLocationPayload", &bytes) < 0
                   ? -1
                   : parse_location(d, bytes, payload);
    *srcloc = field_u64(it, p, slot);
    return query_ask(d->query, QUERY_SOURCE_LOCATION, *srcloc, d->err);
}

HANDLER(on_zone_begin)
{
    struct event_location payload;
    struct event ev = {.kind = EVENT_ZONE_BEGIN,
                       .time = clock_ns(&d->clock, decoder_advance(it, p, &d->ref_thread))};
    if (decoder_take_location(d, it, p, AT_ZONE_SRCLOC, &ev.zone.srcloc, &payload) < 0)
        return -1;
    if (it->flags & WIRE_F_PAYLOAD)
        ev.zone.payload = &payload;
    struct thread_state *t = decoder_current(d);
    if (!t)
        return -1;
    if (it->flags & WIRE_F_CALLSTACK) {
        ev.callstack = t->callstack;
        t->callstack = 0;
    }
    t->zones++;
    d->open_zones++;
    ev.thread = t->id;
    return decoder_emit(d, &ev);
}

HANDLER(on_zone_end)
{
    struct thread_state *t = decoder_current(d);
    if (!t)
        return -1;
    if (t->zones > 0) { /* the sink handles surplus ends */
        t->zones--;
        d->open_zones--;
    }
    struct event ev = {.kind = EVENT_ZONE_END,
                       .thread = t->id,
                       .time = clock_ns(&d->clock, decoder_advance(it, p, &d->ref_thread))};
    return decoder_emit(d, &ev);
}

HANDLER(on_zone_text)
{
    struct event ev = {.kind = it->kind == WIRE_ZONE_TEXT ? EVENT_ZONE_TEXT : EVENT_ZONE_NAME};
    if (slot_take(d, &d->single, "SingleStringData", &ev.text) < 0)
        return -1;
    struct thread_state *t = decoder_current(d);
    if (!t)
        return -1;
    ev.thread = t->id;
    return decoder_emit(d, &ev);
}

HANDLER(on_zone_color)
{
    struct thread_state *t = decoder_current(d);
    if (!t)
        return -1;
    struct event ev = {.kind = EVENT_ZONE_COLOR, .thread = t->id};
    ev.number = field_color(it, p, AT_ZONE_COLOR);
    return decoder_emit(d, &ev);
}

HANDLER(on_zone_number)
{
    struct thread_state *t = decoder_current(d);
    if (!t)
        return -1;
    bool value = it->kind == WIRE_ZONE_VALUE;
    struct event ev = {.kind = value ? EVENT_ZONE_VALUE : EVENT_ZONE_VALIDATION, .thread = t->id};
    ev.number = value ? field_u64(it, p, AT_ZONE_NUMBER) : field_u32(it, p, AT_ZONE_NUMBER);
    return decoder_emit(d, &ev);
}

/* ---- messages */

#define SEVERITY_INFO 2
#define NO_COLOR 0xFFFFFFu

/*
 * Low nibble source, high nibble severity. Fiber builds of 77 send garbage here for a while, so an
 * unknown value is counted and the message treated as plain.
 */
static void set_metadata(struct decoder *d, struct event *ev, uint8_t metadata)
{
    uint8_t source = metadata & 15;
    uint8_t severity = metadata >> 4;
    if (source > 1 || severity > 5) {
        d->stats.odd_metadata++;
        source = 0;
        severity = SEVERITY_INFO;
    }
    ev->message.source = source;
    ev->message.severity = severity;
}

/* Fills in a message except for its text. */
static int begin_message(struct decoder *d, const struct wire_item *it, const uint8_t *p,
                         struct event *ev)
{
    struct thread_state *t = decoder_current(d);
    if (!t)
        return -1;
    *ev = (struct event){.kind = EVENT_MESSAGE, .thread = t->id, .time = decoder_time(d, it, p)};
    if (it->flags & WIRE_F_CALLSTACK) { /* builds without unwinder send none */
        ev->callstack = t->callstack;
        t->callstack = 0;
    }
    ev->message.color =
        field_absent(it, AT_MESSAGE_COLOR) ? NO_COLOR : field_color(it, p, AT_MESSAGE_COLOR);
    ev->message.severity = SEVERITY_INFO;
    return 0;
}

HANDLER(on_message)
{
    struct event ev;
    if (begin_message(d, it, p, &ev) < 0)
        return -1;
    if (!field_absent(it, AT_MESSAGE_METADATA))
        set_metadata(d, &ev, field_u8(it, p, AT_MESSAGE_METADATA));
    if (slot_take(d, &d->single, "SingleStringData", &ev.message.text) < 0)
        return -1;
    return decoder_emit(d, &ev);
}

HANDLER(on_message_literal)
{
    struct event ev;
    if (begin_message(d, it, p, &ev) < 0)
        return -1;
    uint64_t text = field_u64(it, p, AT_MESSAGE_TEXT);
    switch (d->literal_tag) {
    case LITERAL_PLAIN:
        break;
    case LITERAL_TAG_HIGH:
        set_metadata(d, &ev, (uint8_t)(text >> 56));
        text &= UINT64_MAX >> 8;
        break;
    case LITERAL_TAG_LOW:
        set_metadata(d, &ev, (uint8_t)text);
        text >>= 8;
        break;
    }
    ev.message.literal = text;
    if (query_ask(d->query, QUERY_STRING, text, d->err) < 0)
        return -1;
    return decoder_emit(d, &ev);
}

HANDLER(on_app_info)
{
    struct event ev = {.kind = EVENT_APP_INFO, .time = decoder_time(d, it, p)};
    if (slot_take(d, &d->single, "SingleStringData", &ev.text) < 0)
        return -1;
    return decoder_emit(d, &ev);
}

/* ---- locks */

HANDLER(on_lock_announce)
{
    struct event ev = {.kind = EVENT_LOCK_ANNOUNCE, .time = decoder_time(d, it, p)};
    ev.lock.id = field_u32(it, p, AT_LOCK_ID);
    ev.lock.srcloc = field_u64(it, p, AT_LOCK_SRCLOC);
    ev.lock.type = field_u8(it, p, AT_LOCK_TYPE);
    if (ev.lock.type > 1)
        return decoder_fail(d, "lock type %u is none of 0 (exclusive), 1 (shared)", ev.lock.type);
    if (query_ask(d->query, QUERY_SOURCE_LOCATION, ev.lock.srcloc, d->err) < 0)
        return -1;
    return decoder_emit(d, &ev);
}

HANDLER(on_lock_terminate)
{
    struct event ev = {.kind = EVENT_LOCK_TERMINATE, .time = decoder_time(d, it, p)};
    ev.lock.id = field_u32(it, p, AT_LOCK_ID);
    return decoder_emit(d, &ev);
}

/* Wait, obtain, release; the exclusive release carries no thread. */
HANDLER(on_lock_event)
{
    struct event ev = {.time = clock_ns(&d->clock, decoder_advance(it, p, &d->ref_serial))};
    ev.kind = it->kind == WIRE_LOCK_WAIT     ? EVENT_LOCK_WAIT
              : it->kind == WIRE_LOCK_OBTAIN ? EVENT_LOCK_OBTAIN
                                             : EVENT_LOCK_RELEASE;
    ev.lock.id = field_u32(it, p, AT_LOCK_ID);
    ev.lock.shared = it->flags & WIRE_F_SHARED;
    ev.lock.has_thread = !field_absent(it, AT_THREAD);
    if (ev.lock.has_thread) {
        ev.thread = field_u32(it, p, AT_THREAD);
        if (decoder_note_thread(d, (uint32_t)ev.thread) < 0)
            return -1;
    }
    return decoder_emit(d, &ev);
}

HANDLER(on_lock_mark)
{
    struct event ev = {.kind = EVENT_LOCK_MARK, .thread = field_u32(it, p, AT_THREAD)};
    ev.lock.has_thread = true;
    ev.lock.id = field_u32(it, p, AT_LOCK_ID);
    ev.lock.srcloc = field_u64(it, p, AT_LOCK_SRCLOC);
    if (query_ask(d->query, QUERY_SOURCE_LOCATION, ev.lock.srcloc, d->err) < 0)
        return -1;
    return decoder_emit(d, &ev);
}

HANDLER(on_lock_name)
{
    struct event ev = {.kind = EVENT_LOCK_NAME};
    ev.lock.id = field_u32(it, p, AT_LOCK_ID);
    if (slot_take(d, &d->single, "SingleStringData", &ev.lock.text) < 0)
        return -1;
    return decoder_emit(d, &ev);
}

/* ---- frames */

HANDLER(on_frame_mark)
{
    struct event ev = {.time = decoder_time(d, it, p)};
    if (it->kind == WIRE_FRAME_VSYNC) {
        ev.kind = EVENT_FRAME_VSYNC;
        ev.frame_mark.name = field_u32(it, p, AT_FRAME_NAME);
        return decoder_emit(d, &ev);
    }
    ev.kind = it->kind == WIRE_FRAME_MARK    ? EVENT_FRAME_MARK
              : it->kind == WIRE_FRAME_START ? EVENT_FRAME_START
                                             : EVENT_FRAME_END;
    ev.frame_mark.name = field_u64(it, p, AT_FRAME_NAME);
    if (it->kind != WIRE_FRAME_END && /* an end makes no set, so it needs no name */
        query_ask(d->query, QUERY_FRAME_NAME, ev.frame_mark.name, d->err) < 0)
        return -1;
    return decoder_emit(d, &ev);
}

HANDLER(on_frame_image)
{
    struct event ev = {.kind = EVENT_FRAME_IMAGE};
    ev.image.frame = field_u32(it, p, AT_IMAGE_FRAME);
    ev.image.w = field_u16(it, p, AT_IMAGE_W);
    ev.image.h = field_u16(it, p, AT_IMAGE_H);
    ev.image.flip = field_u8(it, p, AT_IMAGE_FLIP);
    if (slot_take(d, &d->image, "FrameImageData", &ev.image.bytes) < 0)
        return -1;
    if (ev.image.w == 0 || ev.image.h == 0 || ev.image.w % 4 || ev.image.h % 4)
        return decoder_fail(d, "an image of %u x %u pixels has no whole 4 x 4 blocks", ev.image.w,
                            ev.image.h);
    if (ev.image.bytes.len != (size_t)ev.image.w * ev.image.h / 2)
        return decoder_fail(d, "an image of %u x %u pixels takes %zu bytes, but %zu came",
                            ev.image.w, ev.image.h, (size_t)ev.image.w * ev.image.h / 2,
                            ev.image.bytes.len);
    return decoder_emit(d, &ev);
}

/* ---- plots and sections */

HANDLER(on_plot)
{
    struct event ev = {.kind = EVENT_PLOT,
                       .time = clock_ns(&d->clock, decoder_advance(it, p, &d->ref_thread))};
    ev.plot.name = field_u64(it, p, AT_PLOT_NAME);
    const uint8_t *value = p + it->at[AT_PLOT_VALUE];
    ev.plot.value = it->arg == WIRE_PLOT_INT     ? (double)load_i64(value)
                    : it->arg == WIRE_PLOT_FLOAT ? (double)load_f32(value)
                                                 : load_f64(value);
    if (query_ask(d->query, QUERY_PLOT_NAME, ev.plot.name, d->err) < 0)
        return -1;
    return decoder_emit(d, &ev);
}

static uint32_t exchange_red_and_blue(uint32_t color)
{
    return (color & 0xFF) << 16 | (color & 0xFF00) | color >> 16;
}

HANDLER(on_plot_config)
{
    struct event ev = {.kind = EVENT_PLOT_CONFIG};
    ev.plot_config.name = field_u64(it, p, AT_PLOT_NAME);
    ev.plot_config.type = field_u8(it, p, AT_PLOT_TYPE);
    ev.plot_config.step = field_u8(it, p, AT_PLOT_STEP);
    ev.plot_config.fill = field_u8(it, p, AT_PLOT_FILL);
    ev.plot_config.color = field_u32(it, p, AT_PLOT_COLOR) & 0xFFFFFF;
    if (d->plot_color_rgb)
        ev.plot_config.color = exchange_red_and_blue(ev.plot_config.color);
    if (ev.plot_config.type > 3)
        return decoder_fail(d, "plot format %u is none of 0 (number) to 3 (watt)",
                            ev.plot_config.type);
    if (query_ask(d->query, QUERY_PLOT_NAME, ev.plot_config.name, d->err) < 0)
        return -1;
    return decoder_emit(d, &ev);
}

/* v0.14.0 replays SectionSetup to an on-demand session without its text. */
HANDLER(on_section)
{
    struct event ev = {0};
    if (it->kind != WIRE_SECTION_SETUP) {
        ev.time = clock_ns(&d->clock, decoder_advance(it, p, &d->ref_thread));
        ev.section.id = field_u32(it, p, AT_SECTION_ID);
    }
    if (!field_absent(it, AT_SECTION_CATEGORY))
        ev.section.category = field_u16(it, p, AT_SECTION_CATEGORY);
    ev.kind = it->kind == WIRE_SECTION_SETUP   ? EVENT_SECTION_SETUP
              : it->kind == WIRE_SECTION_ENTER ? EVENT_SECTION_ENTER
                                               : EVENT_SECTION_LEAVE;
    bool has_text =
        it->kind == WIRE_SECTION_ENTER || (it->kind == WIRE_SECTION_SETUP && d->single.full);
    if (has_text && slot_take(d, &d->single, "SingleStringData", &ev.section.text) < 0)
        return -1;
    return decoder_emit(d, &ev);
}
