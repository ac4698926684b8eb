#include "import/chrome_event.h"

#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <yajl/yajl_parse.h>

/* Nesting depth of objects and arrays; real files have less than ten. */
#define DEPTH_MAX 256u

/* No program writes events this long, or other text this long between events. */
#define PIECE_MAX ((uint64_t)64 << 20)

/* Precedes each allocation of the parser. */
struct parser_block {
    _Alignas(max_align_t) struct parser_block *next;
    struct parser_block *before;
};

struct chrome_reader {
    struct parser_block blocks; /* ring of the parser's allocations */
    struct chrome_event event;
    struct import_counts *counts;
    chrome_event_put *put;
    void *ctx;
    struct err *e;
    yajl_handle parser;
    uint64_t fed;    /* bytes handed to the parser before this block */
    uint64_t mark;   /* start of the current event, or else of the last piece; a lower bound */
    struct buf rest; /* bytes after the last whole token */
    jmp_buf no_memory;
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
    bool in_string; /* the scanned bytes end within a string, … */
    bool escaped;   /* … and after a backslash */
    char last;      /* last scanned byte other than white space */
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
        r->mark = r->fed;
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

/*
 * ---- memory: the parser does not check its allocations, so a failed one leaves the parser by
 * longjmp. The ring then frees its memory.
 */

static void block_link(struct parser_block *b, struct parser_block *ring)
{
    b->next = ring->next;
    b->before = ring;
    ring->next->before = b;
    ring->next = b;
}

static void block_unlink(struct parser_block *b)
{
    b->before->next = b->next;
    b->next->before = b->before;
}

static void *parser_realloc(void *ctx, void *old, size_t size)
{
    struct chrome_reader *r = ctx;
    struct parser_block *b = old ? (struct parser_block *)old - 1 : NULL;
    if (b)
        block_unlink(b);
    struct parser_block *grown = size <= SIZE_MAX - sizeof *b ? realloc(b, sizeof *b + size) : NULL;
    if (!grown) {
        if (b)
            block_link(b, &r->blocks);
        longjmp(r->no_memory, 1);
    }
    block_link(grown, &r->blocks);
    return grown + 1;
}

static void *parser_malloc(void *ctx, size_t size)
{
    return parser_realloc(ctx, NULL, size);
}

static void parser_free(void *ctx, void *p)
{
    (void)ctx;
    if (!p)
        return;
    struct parser_block *b = (struct parser_block *)p - 1;
    block_unlink(b);
    free(b);
}

/* ---- feeding the parser */

static int parse_failed(struct chrome_reader *r, yajl_handle h, yajl_status status, struct err *e)
{
    uint64_t at = r->fed + yajl_get_bytes_consumed(h);
    if (status == yajl_status_client_canceled)
        return e->code == ERR_INPUT ? err_prefix(e, "JSON text, byte %" PRIu64, at) : -1;
    unsigned char *why = yajl_get_error(h, 0, NULL, 0);
    const char *text = why ? (const char *)why : "no memory";
    err_set(e, ERR_INPUT, "JSON text, byte %" PRIu64 ": %.*s", at, (int)strcspn(text, "\n"), text);
    if (why)
        yajl_free_error(h, why);
    return -1;
}

/*
 * Chrome accepts a list without its end, since killed programs leave such files. Here the reader is
 * between two events, or the parser rejects the added end.
 */
static int end_list(struct chrome_reader *r, yajl_handle h, struct err *e)
{
    const char *end = r->last == ',' ? "{}]" : "]";
    uint64_t no_phase = r->counts->notes[NOTE_NO_PHASE];
    if (yajl_parse(h, (const unsigned char *)end, strlen(end)) != yajl_status_ok ||
        yajl_complete_parse(h) != yajl_status_ok || r->depth)
        return e->code ? -1
                       : err_set(e, ERR_INPUT,
                                 "the JSON text ends after %" PRIu64 " bytes, within "
                                 "a value",
                                 r->fed);
    r->counts->notes[NOTE_NO_PHASE] = no_phase;
    r->counts->notes[NOTE_UNFINISHED_LIST]++;
    return 0;
}

static int feed(struct chrome_reader *r, yajl_handle h, struct view bytes, struct err *e)
{
    yajl_status status = yajl_parse(h, (const unsigned char *)bytes.p, bytes.len);
    if (status != yajl_status_ok)
        return parse_failed(r, h, status, e);
    for (size_t i = bytes.len; i-- > 0;) {
        if (!json_is_space(bytes.p[i])) {
            r->last = bytes.p[i];
            break;
        }
    }
    for (size_t i = yajl_get_bytes_consumed(h); i < bytes.len; i++)
        r->counts->notes[NOTE_TRAILING_BYTES] += !json_is_space(bytes.p[i]);
    r->fed += bytes.len;
    return 0;
}

static int check_piece(struct chrome_reader *r, struct err *e)
{
    if (r->fed + r->rest.len - r->mark <= PIECE_MAX)
        return 0;
    return err_set(e, ERR_INPUT,
                   "JSON text, byte %" PRIu64 ": an event or a text in it is "
                   "longer than 64 MiB",
                   r->mark);
}

/* Bytes up to the end of the last whole token. `bytes` continues the previous call's bytes. */
static size_t whole_tokens(struct chrome_reader *r, struct view bytes)
{
    size_t whole = 0;
    for (size_t i = 0; i < bytes.len; i++) {
        char c = bytes.p[i];
        if (r->escaped) {
            r->escaped = false;
        } else if (r->in_string) {
            r->escaped = c == '\\';
            r->in_string = c != '"';
            if (!r->in_string)
                whole = i + 1;
        } else if (c == '"') {
            r->in_string = true;
            whole = i; /* the token before it ends here */
        } else if (c == ',' || c == ':' || c == '{' || c == '}' || c == '[' || c == ']' ||
                   json_is_space(c)) {
            whole = i + 1;
        }
    }
    return whole;
}

static int feed_rest(struct chrome_reader *r, yajl_handle h, struct err *e)
{
    int status = r->rest.failed ? err_no_memory(e, "an event") : feed(r, h, buf_view(&r->rest), e);
    buf_clear(&r->rest);
    return status;
}

/*
 * The parser restarts a token with each call that does not complete it, which is quadratic for a
 * long token. So it gets only whole tokens.
 */
static int feed_tokens(struct chrome_reader *r, yajl_handle h, struct view bytes, struct err *e)
{
    size_t whole = whole_tokens(r, bytes);
    const struct view rest = {bytes.p + whole, bytes.len - whole};
    if (r->rest.len > 0) {
        buf_put(&r->rest, bytes.p, whole);
        if (whole > 0 && feed_rest(r, h, e) != 0)
            return -1;
    } else if (whole > 0 && feed(r, h, (struct view){bytes.p, whole}, e) != 0) {
        return -1;
    }
    buf_put(&r->rest, rest.p, rest.len);
    return r->rest.failed ? err_no_memory(e, "an event") : check_piece(r, e);
}

static int feed_all(struct chrome_reader *r, struct import_source *s, yajl_handle h, struct err *e)
{
    struct view bytes;
    if (import_source_peek(s, &bytes, e) != 0)
        return -1;
    size_t skip = bytes.len >= 3 && memcmp(bytes.p, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    for (;;) {
        if (import_source_next(s, &bytes, e) != 0)
            return -1;
        if (bytes.len == 0)
            break;
        bytes.p += skip;
        bytes.len -= skip;
        r->fed += skip;
        skip = 0;
        if (feed_tokens(r, h, bytes, e) != 0)
            return -1;
    }
    if (feed_rest(r, h, e) != 0)
        return -1;
    if (r->bare_list && r->depth)
        return end_list(r, h, e);
    yajl_status status = yajl_complete_parse(h);
    if (status != yajl_status_ok)
        return parse_failed(r, h, status, e);
    if (!r->seen_list)
        return err_set(e, ERR_INPUT,
                       "there is no list of events: neither is the JSON text a list, "
                       "nor an object with one under \"traceEvents\"");
    return 0;
}

/* State that must survive the longjmp is in the reader or volatile. */
static int read_guarded(struct chrome_reader *r, struct import_source *s)
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
    yajl_alloc_funcs memory = {parser_malloc, parser_realloc, parser_free, r};
    if (setjmp(r->no_memory) != 0)
        return err_no_memory(r->e, "the JSON parser");
    r->parser = yajl_alloc(&calls, &memory, r);
    /* Names may hold any bytes; output escapes them. */
    yajl_config(r->parser, yajl_dont_validate_strings, 1);
    yajl_config(r->parser, yajl_allow_trailing_garbage, 1);
    return feed_all(r, s, r->parser, r->e);
}

int chrome_read(struct import_source *s, struct import_counts *counts, chrome_event_put *put,
                void *ctx, struct err *e)
{
    struct chrome_reader r = {.counts = counts, .put = put, .ctx = ctx, .e = e, .field = -1};
    r.blocks.next = r.blocks.before = &r.blocks;
    int status = read_guarded(&r, s);
    for (struct parser_block *b = r.blocks.next, *next; b != &r.blocks; b = next) {
        next = b->next;
        free(b);
    }
    buf_release(&r.rest);
    buf_release(&r.event.texts);
    json_text_release(&r.event.args);
    return status;
}
