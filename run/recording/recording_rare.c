/* Records other than allocations and frees: images, threads, pools, and what programs send. */

#include <stdlib.h>
#include <string.h>

#include "base/format.h"

#include "run/recording/recording_internal.h"

#define NO_COLOR 0xFFFFFFu
#define WARNING 3u
#define PAGE UINT64_C(4096)

/* Segments of an image; linkers make fewer. */
#define SEGMENTS_MAX 64u

/* The body of a record; reads past its end return zeros. */
struct body {
    const uint8_t *p, *end;
};

static uint64_t number(struct body *b)
{
    uint64_t n = 0;
    for (unsigned shift = 0; b->p < b->end && shift < 64; shift += 7) {
        uint8_t byte = *b->p++;
        n |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            break;
    }
    return n;
}

static struct view text(struct body *b)
{
    uint64_t n = number(b);
    size_t left = (size_t)(b->end - b->p);
    struct view v = {(const char *)b->p, n < left ? (size_t)n : left};
    b->p += v.len;
    return v;
}

static int hand(struct recording *r, const struct event *ev, struct err *e)
{
    const struct event_sink *sink = &r->target->in->sink;
    return recording_flush(r, e) == 0 ? sink->event(sink->ctx, ev, e) : -1;
}

static struct event event_of(struct recording *r, const struct run *run, enum event_kind kind)
{
    return (struct event){
        .kind = kind, .thread = run->thread, .time = recording_time(r, run->stamp)};
}

/*
 * A made-up client pointer for a name, the same for the same text. Adds the name to the trace the
 * first time.
 */
static int key_of(struct recording *r, enum event_kind kind, struct view name, uint64_t *key,
                  struct err *e)
{
    struct event ev = {.kind = kind};
    uint32_t n = strings_intern(&r->target->in->trace->strings, name, e);
    bool fresh;
    if (!n)
        return -1;
    *key = kind == EVENT_PLOT_NAME ? PLOT_KEY(n) : FRAME_KEY(n);
    if (!map_add(&r->names, *key, &fresh))
        return err_no_memory(e, "names");
    ev.name.key = *key;
    ev.name.text = name;
    return fresh ? hand(r, &ev, e) : 0;
}

/* ---- threads and pools */

static int take_owner(struct run *run, struct body *b)
{
    (void)number(b);
    run->thread = (uint32_t)number(b);
    run->address = 0;
    return 0;
}

/* A thread's last name counts; it is added at the end. */
static int take_thread_name(struct recording *r, const struct run *run, struct body *b,
                            struct err *e)
{
    uint32_t name = strings_intern(&r->target->in->trace->strings, text(b), e);
    uint64_t *at = name ? map_add(&r->thread_names, run->thread, NULL) : NULL;
    if (!at)
        return err_no_memory(e, "names");
    *at = name;
    return 0;
}

static int take_pool(struct recording *r, struct body *b, struct err *e)
{
    struct event ev = {.kind = EVENT_STRING};
    uint64_t pool = number(b);
    ev.name.key = POOL_KEY(pool & UINT32_MAX);
    ev.name.text = text(b);
    if (!map_add(&r->pools, ev.name.key, NULL))
        return err_no_memory(e, "pools");
    return hand(r, &ev, e);
}

static int take_discard(struct recording *r, const struct run *run, struct body *b, struct err *e)
{
    uint64_t pool = number(b);
    struct event ev = event_of(r, run, EVENT_MEM_DISCARD);
    ev.mem.pool = POOL_KEY(pool & UINT32_MAX);
    if (recording_callstack(r, number(b), &ev.callstack, e) != 0)
        return -1;
    return hand(r, &ev, e);
}

/* ---- images */

static int take_segment(struct recording *r, uint32_t module, uint32_t epoch, uint64_t bias,
                        struct view path, struct view id, struct body *b, struct err *e)
{
    uint64_t address = number(b), bytes = number(b), offset = number(b), flags = number(b);
    (void)number(b);
    uint64_t start = bias + address, end;
    const uint64_t executable = 1; /* PF_X */
    if (!(flags & executable) || __builtin_add_overflow(start, bytes, &end) ||
        end > UINT64_MAX - PAGE)
        return 0;
    uint64_t into = start % PAGE;
    const struct image_segment segment = {.start = start - into,
                                          .end = (end + PAGE - 1) & ~(PAGE - 1),
                                          .offset = offset > into ? offset - into : 0};
    return process_images_load(&r->images, module, epoch, segment, path, id, e);
}

static int take_module(struct recording *r, struct body *b, struct err *e)
{
    uint32_t module = (uint32_t)number(b), epoch = (uint32_t)number(b);
    uint64_t bias = number(b);
    struct view path = text(b), id = text(b);
    uint64_t count = number(b);
    if (path.len == 0)
        path = view_of(r->header.exe);
    /* An image that is not a file has no symbols. */
    if (path.len == 0 || path.p[0] != '/')
        return 0;
    for (uint64_t i = 0; i < count && i < SEGMENTS_MAX && b->p < b->end; i++) {
        if (take_segment(r, module, epoch, bias, path, id, b, e) != 0)
            return -1;
    }
    struct image_file file = {.device = number(b), .inode = number(b)};
    file.size = number(b);
    file.mtime = number(b);
    return id.len || !file.inode ? 0 : image_places_file(&r->target->places, &file, path, e);
}

/* ---- frames of interpreted functions */

static int take_source(struct recording *r, struct body *b, struct err *e)
{
    uint64_t n = number(b), line = number(b);
    struct view function = text(b), file = text(b);
    return recording_add_source(r, n, function, file, line < UINT32_MAX ? (uint32_t)line : 0, e);
}

/* ---- data from programs */

static int take_message(struct recording *r, const struct run *run, struct body *b, struct err *e)
{
    struct event ev = event_of(r, run, EVENT_MESSAGE);
    uint64_t color = number(b);
    ev.message.color = color ? (uint32_t)color & NO_COLOR : NO_COLOR;
    ev.message.severity = 2;
    r->counts.notes++;
    if (recording_callstack(r, number(b), &ev.callstack, e) != 0)
        return -1;
    ev.message.text = text(b);
    return hand(r, &ev, e);
}

/* Adds a message by Tidemark at the time of `stamp`, in the thread with this id. */
static int recording_say(struct recording *r, uint64_t stamp, uint32_t thread, const char *text,
                         struct err *e)
{
    struct event ev = {.kind = EVENT_MESSAGE, .thread = thread, .time = recording_time(r, stamp)};
    ev.message.color = NO_COLOR;
    ev.message.severity = WARNING;
    ev.message.text = view_of(text);
    return hand(r, &ev, e);
}

int recording_say_pause(struct recording *r, uint64_t stamp, uint32_t thread, bool paused,
                        struct err *e)
{
    r->counts.pauses += paused;
    return recording_say(r, stamp, thread,
                         paused ? "tidemark: from here on allocations are not recorded"
                                : "tidemark: from here on allocations are recorded again",
                         e);
}

/* What this thread lost before this; the header has the totals. */
static int take_loss(struct recording *r, const struct run *run, struct body *b, struct err *e)
{
    char count[FORMAT_SIZE], bytes[FORMAT_SIZE];
    uint64_t why = number(b), n = number(b);
    if (why != REC_LOSS_FULL)
        return 0;
    struct buf text = {0};
    buf_printf(&text, "tidemark: %s dropped before this, %s: the buffer was full",
               format_counted(count, n, "allocation"), format_bytes(bytes, number(b)));
    int status = text.failed
                     ? err_no_memory(e, "a message")
                     : recording_say(r, run->stamp, (uint32_t)run->thread, buf_str(&text), e);
    buf_release(&text);
    return status;
}

static int take_plot(struct recording *r, const struct run *run, struct body *b, struct err *e)
{
    struct event ev = event_of(r, run, EVENT_PLOT);
    uint64_t key;
    if (b->end - b->p < 8)
        return 0;
    memcpy(&ev.plot.value, b->p, 8);
    b->p += 8;
    if (key_of(r, EVENT_PLOT_NAME, text(b), &key, e) != 0)
        return -1;
    ev.plot.name = key;
    r->counts.notes++;
    return hand(r, &ev, e);
}

static int take_frame(struct recording *r, const struct run *run, struct body *b, struct err *e)
{
    static const enum event_kind kinds[] = {[REC_FRAME_MARK] = EVENT_FRAME_MARK,
                                            [REC_FRAME_START] = EVENT_FRAME_START,
                                            [REC_FRAME_END] = EVENT_FRAME_END};
    uint64_t kind = number(b), key = 0;
    struct view name = text(b);
    if (kind > REC_FRAME_END || (kind != REC_FRAME_MARK && name.len == 0))
        return 0;
    if (name.len && key_of(r, EVENT_FRAME_NAME, name, &key, e) != 0)
        return -1;
    struct event ev = event_of(r, run, kinds[kind]);
    ev.frame_mark.name = key;
    r->counts.notes++;
    return hand(r, &ev, e);
}

static int take_zone(struct recording *r, const struct run *run, struct body *b, struct err *e)
{
    struct event ev = event_of(r, run, EVENT_ZONE_BEGIN);
    struct event_location location = {.line = (uint32_t)number(b), .color = (uint32_t)number(b)};
    if (recording_callstack(r, number(b), &ev.callstack, e) != 0)
        return -1;
    location.name = text(b);
    location.function = text(b);
    location.file = text(b);
    /* The library's own zones, `main` and `dlopen`, have no file. */
    r->counts.notes += location.file.len != 0 || location.line != 0;
    ev.zone.srcloc = 0;
    ev.zone.payload = &location;
    return hand(r, &ev, e);
}

static int take_zone_text(struct recording *r, const struct run *run, struct body *b, struct err *e)
{
    struct event ev = event_of(r, run, EVENT_ZONE_TEXT);
    ev.text = text(b);
    return hand(r, &ev, e);
}

static int take_clock(struct recording *r, const struct run *run, struct body *b, struct err *e)
{
    const struct rec_pair pair = {run->stamp, number(b)};
    return r->header.clock == REC_CLOCK_COUNTER ? recording_clock_meet(&r->clock, pair, e) : 0;
}

static int take_start(struct recording *r, enum rec_kind kind, struct body *b, struct err *e)
{
    struct recording_start s = {.kind = kind, .pid = (pid_t)r->header.pid, .followed = true};
    if (kind != REC_EXEC) {
        s.pid = (pid_t)number(b);
        s.followed = number(b) == 1;
    }
    r->counts.forks += kind == REC_FORK && s.followed;
    struct view path = kind == REC_FORK ? (struct view){0} : text(b);
    if (r->starts.len == RECORDING_STARTS || path.len > RECORDING_START_PATHS - r->start_paths) {
        r->starts_dropped++;
        return 0;
    }
    r->start_paths += path.len;
    s.path = path.len ? strndup(path.p, path.len) : NULL;
    if ((path.len && !s.path) || !vec_push(&r->starts, s)) {
        free(s.path);
        return err_no_memory(e, "what the program started");
    }
    return 0;
}

uint64_t recording_take_starts(struct recording *r, void (*take)(void *, struct recording_start *),
                               void *ctx)
{
    uint64_t dropped = r->starts_dropped;
    for (size_t i = 0; i < r->starts.len; i++)
        take(ctx, &r->starts.at[i]);
    r->starts.len = 0;
    r->start_paths = 0;
    r->starts_dropped = 0;
    return dropped;
}

int recording_rare(struct recording *r, struct run *run, struct err *e)
{
    struct body b = {run->pos, run->end};
    struct event ev;
    uint32_t module;
    switch (run->kind & REC_KIND_MASK) {
    case REC_OWNER:
        return take_owner(run, &b);
    case REC_THREAD_NAME:
        return take_thread_name(r, run, &b, e);
    case REC_CLOCK:
        return take_clock(r, run, &b, e);
    case REC_MODULE_LOAD:
        return take_module(r, &b, e);
    case REC_MODULE_UNLOAD:
        module = (uint32_t)number(&b);
        process_images_unload(&r->images, module, (uint32_t)number(&b));
        return 0;
    case REC_POOL:
        return take_pool(r, &b, e);
    case REC_DISCARD:
        return take_discard(r, run, &b, e);
    case REC_MESSAGE:
        return take_message(r, run, &b, e);
    case REC_PLOT:
        return take_plot(r, run, &b, e);
    case REC_FRAME:
        return take_frame(r, run, &b, e);
    case REC_ZONE_BEGIN:
        return take_zone(r, run, &b, e);
    case REC_ZONE_END:
        ev = event_of(r, run, EVENT_ZONE_END);
        return hand(r, &ev, e);
    case REC_ZONE_TEXT:
        return take_zone_text(r, run, &b, e);
    case REC_FORK:
    case REC_EXEC:
    case REC_SPAWN:
        return take_start(r, run->kind & REC_KIND_MASK, &b, e);
    case REC_THREAD_EXIT:
        return 0;
    case REC_LOSS:
        return take_loss(r, run, &b, e);
    case REC_SOURCE:
        return take_source(r, &b, e);
    case REC_PAUSE:
        return recording_say_pause(r, run->stamp, (uint32_t)run->thread, number(&b) != 0, e);
    default:
        r->counts.unknown_kind++;
        return 0;
    }
}
