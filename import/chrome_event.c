#include "import/chrome_event.h"

#include <inttypes.h>
#include <math.h>

#include "import/json_stream.h"

/* Nesting depth of objects and arrays; real files have less than ten. */
#define DEPTH_MAX 256u

struct chrome_reader {
    struct json_stream stream; /* its mark: the current event, or else the last piece */
    struct chrome_event event;
    struct import_counts *counts;
    chrome_event_put *put;
    void *ctx;
    struct err *e;
    unsigned depth;        /* open containers */
    unsigned events_depth; /* depth of the list of events, or 0 */
    int field;             /* enum chrome_field of the next value, or -1 */
    bool list_next;        /* the next value is the list of events */
    bool bare_list;        /* the document itself is the list of events */
    bool seen_list;
    bool in_event;
    bool in_args;   /* values go to event.args */
    bool args_next; /* the next value is the arguments */
    bool in_id2;    /* within an object of two ids, or just after it */
};

struct view chrome_field_text(const struct chrome_event *ev, enum chrome_field field)
{
    const struct chrome_value *v = &ev->fields[field];
    if ((v->kind != JSON_STRING && v->kind != JSON_NUMBER) || v->len == 0)
        return (struct view){"", 0};
    return (struct view){(const char *)ev->texts.data + v->start, v->len};
}

bool chrome_text_number(struct view text, double *value)
{
    char room[400], *end;
    if (text.len == 0 || text.len >= sizeof room)
        return false;
    memcpy(room, text.p, text.len);
    room[text.len] = 0;
    *value = strtod(room, &end);
    return end == room + text.len && isfinite(*value);
}

/* ---- parser callbacks: 1 to continue, 0 with the error filled */

static int go_on(int status)
{
    return status == 0;
}

static void begin_event(struct chrome_reader *r)
{
    r->in_event = true;
    r->in_id2 = false;
    r->field = -1;
    buf_clear(&r->event.texts);
    memset(r->event.fields, 0, sizeof r->event.fields);
    json_text_clear(&r->event.args);
}

static int end_event(struct chrome_reader *r)
{
    r->in_event = false;
    if (r->event.texts.failed)
        return err_no_memory(r->e, "an event");
    return r->put(r->ctx, &r->event, r->e);
}

static bool is_event_level(const struct chrome_reader *r)
{
    return r->in_event && r->depth == r->events_depth + 1;
}

static bool is_id2_level(const struct chrome_reader *r)
{
    return r->in_event && r->in_id2 && r->depth == r->events_depth + 2;
}

static void note_piece(struct chrome_reader *r)
{
    if (!r->in_event)
        r->stream.mark = r->stream.fed;
}

/* Handles a value other than an object or array. */
static int put_scalar(struct chrome_reader *r, enum json_kind kind, struct view text)
{
    note_piece(r);
    r->list_next = false;
    if (r->in_args || (is_event_level(r) && r->args_next)) {
        r->args_next = false;
        switch (kind) {
        case JSON_STRING:
            return json_text_string(&r->event.args, text, r->e);
        case JSON_NUMBER:
            return json_text_number(&r->event.args, text, r->e);
        case JSON_BOOLEAN:
            return json_text_word(&r->event.args, text.p, kind, r->e);
        default:
            /* A null as the arguments has no text; a null member has. */
            return r->in_args ? json_text_word(&r->event.args, "null", kind, r->e) : 0;
        }
    }
    if (r->events_depth && r->depth == r->events_depth)
        r->counts->notes[NOTE_NOT_EVENTS]++;
    if ((!is_event_level(r) && !is_id2_level(r)) || r->field < 0)
        return 0;
    r->event.fields[r->field] = (struct chrome_value){kind, r->event.texts.len, text.len};
    buf_put(&r->event.texts, text.p, text.len);
    return 0;
}

static int on_null(void *ctx)
{
    return go_on(put_scalar(ctx, JSON_NOTHING, view_of("")));
}

static int on_boolean(void *ctx, int value)
{
    return go_on(put_scalar(ctx, JSON_BOOLEAN, view_of(value ? "true" : "false")));
}

static int on_number(void *ctx, const char *text, size_t len)
{
    return go_on(put_scalar(ctx, JSON_NUMBER, (struct view){text, len}));
}

static int on_string(void *ctx, const unsigned char *text, size_t len)
{
    return go_on(put_scalar(ctx, JSON_STRING, (struct view){(const char *)text, len}));
}

struct field_name {
    const char *name;
    enum chrome_field field;
};

static int field_of(const struct field_name *fields, size_t n, struct view key)
{
    for (size_t i = 0; i < n; i++) {
        if (view_equal(key, view_of(fields[i].name)))
            return (int)fields[i].field;
    }
    return -1;
}

static int on_key(void *ctx, const unsigned char *text, size_t len)
{
    static const struct field_name fields[] = {
        {"ph", FIELD_PHASE},     {"name", FIELD_NAME},   {"ts", FIELD_TIME},
        {"dur", FIELD_DURATION}, {"pid", FIELD_PROCESS}, {"tid", FIELD_THREAD},
        {"loc", FIELD_LOCATION}, {"id", FIELD_ID},       {"cat", FIELD_CATEGORY},
        {"scope", FIELD_SCOPE},
    };
    static const struct field_name ids[] = {{"local", FIELD_LOCAL_ID}, {"global", FIELD_GLOBAL_ID}};
    struct chrome_reader *r = ctx;
    const struct view key = {(const char *)text, len};
    note_piece(r);
    if (r->in_args)
        return go_on(json_text_key(&r->event.args, key, r->e));
    if (!r->bare_list && r->depth == 1)
        r->list_next = view_equal(key, view_of("traceEvents"));
    if (is_id2_level(r))
        r->field = field_of(ids, sizeof ids / sizeof *ids, key);
    if (!is_event_level(r))
        return 1;
    r->field = field_of(fields, sizeof fields / sizeof *fields, key);
    r->in_id2 = view_equal(key, view_of("id2"));
    r->args_next = view_equal(key, view_of("args"));
    if (r->args_next)
        json_text_clear(&r->event.args);
    return 1;
}

static int open_container(struct chrome_reader *r, bool is_object)
{
    note_piece(r);
    if (r->depth == DEPTH_MAX)
        return err_set(r->e, ERR_INPUT, "objects and arrays nest deeper than %u", DEPTH_MAX);
    bool at_event = is_event_level(r);
    r->depth++;
    if (r->in_args || (at_event && r->args_next)) {
        r->in_args = true;
        r->args_next = false;
        return json_text_open(&r->event.args, is_object, r->e);
    }
    if (at_event && r->field >= 0) /* a value that no field can have */
        r->event.fields[r->field].kind = JSON_CONTAINER;
    if (!r->events_depth) {
        if (!is_object && (r->depth == 1 || (r->depth == 2 && r->list_next))) {
            r->bare_list = r->depth == 1;
            r->events_depth = r->depth;
            r->seen_list = true;
        }
    } else if (r->depth == r->events_depth + 1) {
        if (is_object)
            begin_event(r);
        else
            r->counts->notes[NOTE_NOT_EVENTS]++;
    }
    r->list_next = false;
    return 0;
}

static int close_container(struct chrome_reader *r)
{
    r->depth--;
    if (r->in_args) {
        if (json_text_close(&r->event.args, r->e) != 0)
            return -1;
        r->in_args = r->event.args.levels.len > 0;
        return 0;
    }
    if (r->depth < r->events_depth)
        r->events_depth = 0;
    else if (r->in_event && r->depth == r->events_depth && end_event(r) != 0)
        return -1;
    note_piece(r);
    return 0;
}

static int on_open_object(void *ctx)
{
    return go_on(open_container(ctx, true));
}

static int on_open_array(void *ctx)
{
    return go_on(open_container(ctx, false));
}

static int on_close(void *ctx)
{
    return go_on(close_container(ctx));
}

/* ---- the end of the text */

/*
 * Chrome accepts a list without its end, since killed programs leave such files. Here the reader is
 * between two events, or the parser rejects the added end.
 */
static int end_list(struct chrome_reader *r, struct err *e)
{
    const char *end = r->stream.last == ',' ? "{}]" : "]";
    uint64_t no_phase = r->counts->notes[NOTE_NO_PHASE];
    if (!json_stream_parse(&r->stream, end) || r->depth)
        return e->code ? -1
                       : err_set(e, ERR_INPUT,
                                 "the JSON text ends after %" PRIu64 " bytes, within "
                                 "a value",
                                 r->stream.fed);
    r->counts->notes[NOTE_NO_PHASE] = no_phase;
    r->counts->notes[NOTE_UNFINISHED_LIST]++;
    return 1;
}

static int on_end(void *ctx, struct err *e)
{
    struct chrome_reader *r = ctx;
    return r->bare_list && r->depth ? end_list(r, e) : 0;
}

int chrome_read(struct import_source *s, struct import_counts *counts, chrome_event_put *put,
                void *ctx, struct err *e)
{
    static const yajl_callbacks calls = {.yajl_null = on_null,
                                         .yajl_boolean = on_boolean,
                                         .yajl_number = on_number,
                                         .yajl_string = on_string,
                                         .yajl_start_map = on_open_object,
                                         .yajl_map_key = on_key,
                                         .yajl_end_map = on_close,
                                         .yajl_start_array = on_open_array,
                                         .yajl_end_array = on_close};
    struct chrome_reader r = {.counts = counts, .put = put, .ctx = ctx, .e = e, .field = -1};
    int status = json_stream_read(&r.stream, s, &calls, &r, on_end, e);
    counts->notes[NOTE_TRAILING_BYTES] += r.stream.trailing;
    if (status == 0 && !r.seen_list)
        status = err_set(e, ERR_INPUT,
                         "there is no list of events: neither is the JSON text a list, "
                         "nor an object with one under \"traceEvents\"");
    buf_release(&r.event.texts);
    json_text_release(&r.event.args);
    return status;
}
