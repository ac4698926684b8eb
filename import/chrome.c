/*
 * Imports Chrome trace JSON. Events arrive in any order, so all are sorted by time before the
 * ingest: zones first, then messages and plot values, as in the official importer
 * (import/src/import-chrome.cpp, server/TracyWorker.cpp @ v0.14.0), whose order determines that of
 * the threads.
 */

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "import/chrome_async.h"
#include "import/chrome_plots.h"
#include "trace/store/spill.h"

/* Records of each list kept in memory before it spills to a temporary file. */
#define RECORDS_IN_MEMORY ((size_t)1 << 19)

/* After the year 2060 even on a clock that started in 1970; sums of three fit 64 bits as ns. */
#define TIME_MAX_US 3e15

/* The beginning of a zone or, with name 0, its end. Texts are string numbers. */
struct zone_record {
    int64_t time;
    uint64_t thread;
    uint64_t async; /* key of its id; 0: the zone nests on its thread (chrome_async.h) */
    uint32_t process;
    uint32_t name, file, line, text;
};

enum note_kind {
    RECORD_MESSAGE,
    RECORD_FRAME,
    RECORD_VALUE,
};

struct note_record {
    int64_t time;
    uint64_t owner; /* thread, or key of a plot */
    uint32_t kind;
    uint32_t text;
    double value;
};

struct chrome_import {
    struct ingest *in;
    struct import_counts *counts;
    struct chrome_ids ids;
    struct chrome_plots plots;
    struct chrome_async async;
    struct spill zones; /* struct zone_record */
    struct spill notes; /* struct note_record */
    struct buf text;
    int64_t first, last; /* earliest and latest time */
    bool any, any_zone;
    int64_t base;      /* the time that becomes 0 */
    struct map frames; /* text → key of the frame set */
};

/* ---- reading */

/*
 * Converts microseconds with fractions to nanoseconds and truncates as the official importer does.
 */
static bool time_of(const struct chrome_event *ev, enum chrome_field field, int64_t *time)
{
    double us;
    if (!chrome_text_number(chrome_field_text(ev, field), &us) || fabs(us) > TIME_MAX_US)
        return false;
    *time = (int64_t)(us * 1000.);
    return true;
}

static void note_time(struct chrome_import *c, int64_t time)
{
    c->first = !c->any || time < c->first ? time : c->first;
    c->last = !c->any || time > c->last ? time : c->last;
    c->any = true;
}

/* "file:line"; without a colon the whole text is the file. */
static int put_location(struct chrome_import *c, const struct chrome_event *ev,
                        struct zone_record *z, struct err *e)
{
    struct view loc = chrome_field_text(ev, FIELD_LOCATION);
    const char *colon = loc.len ? memrchr(loc.p, ':', loc.len) : NULL;
    if (colon) {
        for (const char *p = colon + 1; p < loc.p + loc.len && isdigit((unsigned char)*p); p++)
            z->line = z->line > UINT32_MAX / 10 - 1 ? z->line : z->line * 10 + (uint32_t)(*p - '0');
        loc.len = (size_t)(colon - loc.p);
    }
    z->file = strings_intern(&c->in->trace->strings, loc, e);
    return z->file ? 0 : -1;
}

/* Appends a line "name: value" per argument. */
static void append_arguments(struct buf *to, const struct json_text *args)
{
    for (size_t i = 0; i < args->members.len; i++) {
        struct view key = json_text_key_of(args, &args->members.at[i]);
        struct view value = json_text_value_of(args, &args->members.at[i]);
        buf_put(to, key.p, key.len);
        buf_puts(to, ": ");
        buf_put(to, value.p, value.len);
        buf_puts(to, "\n");
    }
}

/* Appends the arguments, and "cat: …" for the categories. */
static void append_details(struct buf *to, const struct chrome_event *ev)
{
    struct view category = chrome_field_text(ev, FIELD_CATEGORY);
    append_arguments(to, &ev->args);
    if (category.len) {
        buf_puts(to, "cat: ");
        buf_put(to, category.p, category.len);
        buf_puts(to, "\n");
    }
}

/* Stores c->text, which has just been written. `text` stays 0 if it is empty. */
static int put_text(struct chrome_import *c, uint32_t *text, struct err *e)
{
    if (c->text.failed)
        return err_no_memory(e, "a zone's text");
    if (c->text.len == 0)
        return 0;
    *text = strings_intern(&c->in->trace->strings, buf_view(&c->text), e);
    return *text ? 0 : -1;
}

/* Sets the zone's location: its thread, or the key of its id. */
static int place_zone(struct chrome_import *c, const struct chrome_event *ev, bool by_id,
                      struct zone_record *z, struct err *e)
{
    if (by_id && chrome_async_key(&c->async, &c->ids, ev, &z->async, &z->process, e) != 0)
        return -1;
    return z->async ? 0 : chrome_thread_of(&c->ids, ev, &z->thread, e);
}

static int add_zone_record(struct chrome_import *c, const struct zone_record *z, struct err *e)
{
    note_time(c, z->time);
    c->any_zone = true;
    return spill_add(&c->zones, z, 1, e);
}

static int add_zone_end(struct chrome_import *c, const struct chrome_event *ev, int64_t time,
                        bool by_id, struct err *e)
{
    struct zone_record z = {.time = time};
    if (place_zone(c, ev, by_id, &z, e) != 0)
        return -1;
    buf_clear(&c->text);
    if (z.async) /* the beginning has the same categories: they are part of the id's key */
        append_arguments(&c->text, &ev->args);
    else
        append_details(&c->text, ev);
    return put_text(c, &z.text, e) != 0 ? -1 : add_zone_record(c, &z, e);
}

static int add_zone(struct chrome_import *c, const struct chrome_event *ev, int64_t time,
                    bool by_id, struct err *e)
{
    struct zone_record z = {.time = time};
    buf_clear(&c->text);
    append_details(&c->text, ev);
    if (put_text(c, &z.text, e) != 0 || place_zone(c, ev, by_id, &z, e) != 0 ||
        put_location(c, ev, &z, e) != 0)
        return -1;
    z.name = strings_intern(&c->in->trace->strings, chrome_field_text(ev, FIELD_NAME), e);
    if (!z.name)
        return -1;
    c->counts->zones++;
    return add_zone_record(c, &z, e);
}

static int add_complete(struct chrome_import *c, const struct chrome_event *ev, int64_t time,
                        struct err *e)
{
    struct zone_record end = {.time = time};
    int64_t duration;
    if (!time_of(ev, FIELD_DURATION, &duration) || duration < 0) {
        c->counts->notes[NOTE_NO_DURATION]++;
        duration = 0;
    }
    if (add_zone(c, ev, time, false, e) != 0 || place_zone(c, ev, false, &end, e) != 0)
        return -1;
    end.time += duration;
    return add_zone_record(c, &end, e);
}

/* The format has no frames: instants with this word in their name mark them. */
static bool is_frame(struct view name)
{
    static const char word[] = "frame";
    size_t n = sizeof word - 1;
    for (size_t i = 0; i + n <= name.len; i++) {
        size_t k = 0;
        while (k < n && tolower((unsigned char)name.p[i + k]) == word[k])
            k++;
        if (k == n)
            return true;
    }
    return false;
}

/* Adds a record with c->text as its text. */
static int add_note(struct chrome_import *c, struct note_record *r, struct err *e)
{
    if (c->text.failed)
        return err_no_memory(e, "a message's text");
    r->text = strings_intern(&c->in->trace->strings, buf_view(&c->text), e);
    if (!r->text)
        return -1;
    c->counts->messages += r->kind == RECORD_MESSAGE;
    c->counts->frames += r->kind == RECORD_FRAME;
    note_time(c, r->time);
    return spill_add(&c->notes, r, 1, e);
}

/* Writes a message's text: its name, then a line for each detail. */
static void put_message(struct chrome_import *c, const struct chrome_event *ev, const char *what,
                        bool details)
{
    struct view name = chrome_field_text(ev, FIELD_NAME), id = chrome_field_text(ev, FIELD_ID);
    buf_clear(&c->text);
    if (what[0]) {
        buf_puts(&c->text, what);
        buf_put(&c->text, id.p, id.len);
        buf_puts(&c->text, ": ");
    }
    buf_put(&c->text, name.p, name.len);
    size_t len = c->text.len;
    if (!details)
        return;
    buf_puts(&c->text, "\n");
    append_details(&c->text, ev);
    /* Leave out an empty last line and a final line end. */
    c->text.len = c->text.len == len + 1 ? len : c->text.len - (c->text.len > len);
}

static int add_instant(struct chrome_import *c, const struct chrome_event *ev, int64_t time,
                       struct err *e)
{
    struct view name = chrome_field_text(ev, FIELD_NAME);
    struct note_record r = {.time = time, .kind = is_frame(name) ? RECORD_FRAME : RECORD_MESSAGE};
    if (chrome_thread_of(&c->ids, ev, &r.owner, e) != 0)
        return -1;
    put_message(c, ev, "", r.kind == RECORD_MESSAGE);
    return add_note(c, &r, e);
}

static int add_flow(struct chrome_import *c, const struct chrome_event *ev, int64_t time,
                    const char *what, struct err *e)
{
    struct note_record r = {.time = time, .kind = RECORD_MESSAGE};
    if (chrome_thread_of(&c->ids, ev, &r.owner, e) != 0)
        return -1;
    put_message(c, ev, what, true);
    return add_note(c, &r, e);
}

static int add_counter(struct chrome_import *c, const struct chrome_event *ev, int64_t time,
                       struct err *e)
{
    const struct json_text *args = &ev->args;
    for (size_t i = 0; i < args->members.len; i++) {
        const struct json_member *m = &args->members.at[i];
        struct note_record r = {.time = time, .kind = RECORD_VALUE};
        if (m->kind != JSON_NUMBER || !chrome_text_number(json_text_value_of(args, m), &r.value)) {
            c->counts->notes[NOTE_PLOT_VALUES]++;
            continue;
        }
        int64_t n = chrome_plot_number(&c->plots, &c->ids, ev, json_text_key_of(args, m), e);
        if (n < -1)
            return -1;
        if (n < 0) {
            c->counts->notes[NOTE_TOO_MANY_PLOTS]++;
            continue;
        }
        r.owner = CHROME_PLOT_KEY + (uint64_t)n;
        c->counts->plot_values++;
        note_time(c, time);
        if (spill_add(&c->notes, &r, 1, e) != 0)
            return -1;
    }
    return 0;
}

static int add_timed(struct chrome_import *c, const struct chrome_event *ev, char phase,
                     struct err *e)
{
    int64_t time;
    if (!time_of(ev, FIELD_TIME, &time)) {
        c->counts->notes[NOTE_NO_TIME]++;
        return 0;
    }
    switch (phase) {
    case 'b':
    case 'B':
        return add_zone(c, ev, time, phase == 'b', e);
    case 'e':
    case 'E':
        return add_zone_end(c, ev, time, phase == 'e', e);
    case 'X':
        return add_complete(c, ev, time, e);
    case 'C':
        return add_counter(c, ev, time, e);
    case 's':
        return add_flow(c, ev, time, "flow begins ", e);
    case 't':
        return add_flow(c, ev, time, "flow goes on ", e);
    case 'f':
        return add_flow(c, ev, time, "flow ends ", e);
    default:
        return add_instant(c, ev, time, e);
    }
}

static int add_event(void *ctx, const struct chrome_event *ev, struct err *e)
{
    struct chrome_import *c = ctx;
    struct view phase = chrome_field_text(ev, FIELD_PHASE);
    if (phase.len == 0) {
        c->counts->notes[NOTE_NO_PHASE]++;
        return 0;
    }
    if (phase.len == 1 && phase.p[0] == 'M')
        return chrome_metadata(&c->ids, ev, c->counts, e);
    if (phase.len == 1 && phase.p[0] && strchr("bBeEXiInCstf", phase.p[0]))
        return add_timed(c, ev, phase.p[0], e);
    c->counts->notes[NOTE_OTHER_PHASES]++;
    return 0;
}

/* ---- handing over */

static int hand(struct chrome_import *c, const struct event *ev, struct err *e)
{
    return c->in->sink.event(c->in->sink.ctx, ev, e);
}

static int put_zone_text(struct chrome_import *c, uint64_t thread, const struct zone_record *z,
                         struct err *e)
{
    const struct event ev = {.kind = EVENT_ZONE_TEXT,
                             .thread = thread,
                             .time = z->time - c->base,
                             .text = strings_get(&c->in->trace->strings, z->text)};
    return z->text ? hand(c, &ev, e) : 0;
}

static int begin_zone(struct chrome_import *c, const struct zone_record *z, struct err *e)
{
    const struct strings *s = &c->in->trace->strings;
    const struct event_location location = {
        .function = strings_get(s, z->name), .file = strings_get(s, z->file), .line = z->line};
    struct event ev = {.kind = EVENT_ZONE_BEGIN, .thread = z->thread, .time = z->time - c->base};
    ev.zone.payload = &location;
    if (z->async &&
        chrome_async_begin(&c->async, &c->ids, z->async, z->process, &ev.thread, e) != 0)
        return -1;
    return hand(c, &ev, e) != 0 ? -1 : put_zone_text(c, ev.thread, z, e);
}

static int end_zone(struct chrome_import *c, const struct zone_record *z, struct err *e)
{
    struct event ev = {.kind = EVENT_ZONE_END, .thread = z->thread, .time = z->time - c->base};
    if (z->async && !chrome_async_end(&c->async, z->async, &ev.thread)) {
        c->counts->notes[NOTE_ASYNC_ENDS]++;
        return 0;
    }
    return put_zone_text(c, ev.thread, z, e) != 0 ? -1 : hand(c, &ev, e);
}

static int put_zones(void *ctx, const void *recs, size_t n, struct err *e)
{
    const struct zone_record *z = recs;
    for (size_t i = 0; i < n; i++) {
        if ((z[i].name ? begin_zone : end_zone)(ctx, &z[i], e) != 0)
            return -1;
    }
    return 0;
}

/* The first mark of a set assigns its key and reports its name. */
static int put_frame(struct chrome_import *c, const struct note_record *r, struct err *e)
{
    bool fresh;
    uint64_t next = c->frames.count + 1;
    uint64_t *key = map_add(&c->frames, r->text, &fresh);
    if (!key)
        return err_no_memory(e, "frames");
    if (fresh)
        *key = next;
    struct event mark = {.kind = EVENT_FRAME_MARK, .time = r->time - c->base};
    struct event name = {.kind = EVENT_FRAME_NAME};
    mark.frame_mark.name = name.name.key = *key;
    name.name.text = strings_get(&c->in->trace->strings, r->text);
    if (hand(c, &mark, e) != 0)
        return -1;
    return fresh ? hand(c, &name, e) : 0;
}

static int put_note(struct chrome_import *c, const struct note_record *r, struct err *e)
{
    struct event ev = {.time = r->time - c->base};
    switch (r->kind) {
    case RECORD_FRAME:
        return put_frame(c, r, e);
    case RECORD_VALUE:
        ev.kind = EVENT_PLOT;
        ev.plot.name = r->owner;
        ev.plot.value = r->value;
        return hand(c, &ev, e);
    default:
        ev.kind = EVENT_MESSAGE;
        ev.thread = r->owner;
        ev.message.text = strings_get(&c->in->trace->strings, r->text);
        ev.message.color = 0xFFFFFFFF;
        ev.message.severity = 2;
        return hand(c, &ev, e);
    }
}

static int put_notes(void *ctx, const void *recs, size_t n, struct err *e)
{
    const struct note_record *r = recs;
    for (size_t i = 0; i < n; i++) {
        if (put_note(ctx, &r[i], e) != 0)
            return -1;
    }
    return 0;
}

/*
 * The official importer starts at the first event if there are zones, and otherwise leaves times
 * unchanged. Tidemark does the same unless the format cannot hold such times.
 */
static int64_t base_of(const struct chrome_import *c)
{
    if (!c->any)
        return 0;
    if (!c->any_zone && c->first >= 0 && c->last <= INGEST_TIME_LIMIT)
        return 0;
    return c->first;
}

/* A trace without frames has the base set with two marks, which the store adds. */
static int name_base_set(struct chrome_import *c, struct err *e)
{
    struct event ev = {.kind = EVENT_FRAME_NAME};
    c->in->trace->frame_sets.no_base = c->frames.count > 0;
    ev.name.text = view_of("Frame");
    return c->frames.count ? 0 : hand(c, &ev, e);
}

/*
 * Marks the trace as having no fibers: its thread ids of processes lie in the range of a capture's
 * fiber ids.
 */
static void deny_fibers(struct trace *t)
{
    for (size_t i = 0; i < t->threads.list.len; i++)
        t->threads.list.at[i].is_fiber = false;
}

static int put_everything(struct chrome_import *c, struct err *e)
{
    c->base = base_of(c);
    if (spill_drain(&c->zones, put_zones, c, e) != 0 ||
        spill_drain(&c->notes, put_notes, c, e) != 0 || name_base_set(c, e) != 0 ||
        chrome_plots_finish(&c->plots, &c->ids, c->in, e) != 0 ||
        chrome_ids_finish(&c->ids, c->in, e) != 0)
        return -1;
    if (trace_add_fact(c->in->trace, e, "imported", "Chrome trace JSON") != 0 ||
        ingest_finish(c->in, e) != 0)
        return -1;
    deny_fibers(c->in->trace);
    /* A zone without an end lasts until the latest event. */
    int64_t end = c->any ? c->last - c->base : 0;
    struct trace_facts *facts = &c->in->trace->facts;
    end = end < INGEST_TIME_LIMIT ? end : INGEST_TIME_LIMIT;
    facts->last_time = end > facts->last_time ? end : facts->last_time;
    return 0;
}

int import_chrome(struct import_source *s, struct ingest *in, const char *dir,
                  struct import_counts *counts, struct err *e)
{
    struct chrome_import c = {.in = in, .counts = counts, .ids = {.trace = in->trace}};
    spill_init(&c.zones, sizeof(struct zone_record), RECORDS_IN_MEMORY, dir);
    spill_init(&c.notes, sizeof(struct note_record), RECORDS_IN_MEMORY, dir);
    int status = chrome_read(s, counts, add_event, &c, e);
    if (status == 0)
        status = put_everything(&c, e);
    spill_release(&c.zones);
    spill_release(&c.notes);
    chrome_plots_release(&c.plots);
    chrome_async_release(&c.async);
    chrome_ids_release(&c.ids);
    map_release(&c.frames);
    buf_release(&c.text);
    return status;
}
