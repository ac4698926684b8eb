/*
 * Source of the format: proto/profile.proto of github.com/google/pprof, in protocol buffer wire
 * encoding. Fields of the outermost message may come in any order, so data is written as it
 * arrives, and the strings at the end.
 */

#include <zlib.h>

#include "base/format.h"
#include "report/export/stack_formats.h"
#include "report/write/emit.h"

enum {
    PROFILE_SAMPLE_TYPE = 1,
    PROFILE_SAMPLE = 2,
    PROFILE_MAPPING = 3,
    PROFILE_LOCATION = 4,
    PROFILE_FUNCTION = 5,
    PROFILE_STRING_TABLE = 6,
    PROFILE_TIME_NANOS = 9,
    PROFILE_DURATION_NANOS = 10,
    PROFILE_PERIOD_TYPE = 11,
    PROFILE_PERIOD = 12,
    PROFILE_DEFAULT_SAMPLE_TYPE = 14,
};

static const struct {
    const char *type;
    const char *unit;
    enum profile_of of;
    bool bytes;
} values[] = {
    {"alloc_objects", "count", PROFILE_TOTAL, false},
    {"alloc_space", "bytes", PROFILE_TOTAL, true},
    {"inuse_objects", "count", PROFILE_LIVE, false},
    {"inuse_space", "bytes", PROFILE_LIVE, true},
    {"peak_objects", "count", PROFILE_PEAK, false},
    {"peak_space", "bytes", PROFILE_PEAK, true},
    {"temporary_objects", "count", PROFILE_TEMPORARY, false},
    {"temporary_space", "bytes", PROFILE_TEMPORARY, true},
};

#define VALUES (sizeof values / sizeof *values)
#define INUSE_SPACE 3u

struct pprof {
    const struct profile *profile;
    FILE *out;
    z_stream zip;
    uint8_t packed[16384];
    struct buf buf;           /* not compressed yet */
    struct buf message;       /* the current message */
    struct buf inner;         /* a message or list in it */
    VEC(struct view) strings; /* further strings, after those of the profile */
    struct buf texts;         /* UTF-8 of one string */
};

/* ---- protocol buffers */

static void put_varint(struct buf *b, uint64_t n)
{
    uint8_t bytes[10];
    size_t len = 0;
    for (; n >= 0x80; n >>= 7)
        bytes[len++] = (uint8_t)(n | 0x80);
    bytes[len++] = (uint8_t)n;
    buf_put(b, bytes, len);
}

/* Puts a number; 0 equals a missing field. */
static void put_number(struct buf *b, unsigned field, uint64_t n)
{
    if (n == 0)
        return;
    put_varint(b, field << 3);
    put_varint(b, n);
}

static void put_bytes(struct buf *b, unsigned field, const void *bytes, size_t n)
{
    put_varint(b, field << 3 | 2);
    put_varint(b, n);
    buf_put(b, bytes, n);
}

/* The format's counts are signed, so large ones are clamped. */
static uint64_t clamp(uint64_t n)
{
    return n > INT64_MAX ? INT64_MAX : n;
}

/* ---- gzip */

static int compress_waiting(struct pprof *w, int mode, struct err *e)
{
    w->zip.next_in = w->buf.data;
    w->zip.avail_in = (uInt)w->buf.len;
    int status;
    do {
        w->zip.next_out = w->packed;
        w->zip.avail_out = sizeof w->packed;
        status = deflate(&w->zip, mode);
        size_t n = sizeof w->packed - w->zip.avail_out;
        if (status == Z_STREAM_ERROR)
            return err_set(e, ERR_OUTPUT, "cannot compress a profile");
        if (n > 0 && fwrite(w->packed, 1, n, w->out) < n)
            return err_errno(e, ERR_OUTPUT, "cannot write a profile");
    } while (mode == Z_FINISH ? status != Z_STREAM_END : w->zip.avail_out == 0);
    buf_clear(&w->buf);
    return 0;
}

static int flush(struct pprof *w, int mode, struct err *e)
{
    if (w->buf.failed || w->message.failed || w->inner.failed || w->texts.failed)
        return err_no_memory(e, "a profile");
    if (mode == Z_NO_FLUSH && w->buf.len < EMIT_AT)
        return 0;
    return compress_waiting(w, mode, e);
}

/* Appends the current message to the profile. */
static int end_message(struct pprof *w, unsigned field, struct err *e)
{
    put_bytes(&w->buf, field, w->message.data, w->message.len);
    buf_clear(&w->message);
    return flush(w, Z_NO_FLUSH, e);
}

static void end_inner(struct pprof *w, unsigned field)
{
    put_bytes(&w->message, field, w->inner.data, w->inner.len);
    buf_clear(&w->inner);
}

/* ---- the profile */

/*
 * Adds a text that the profile lacks and returns its number. Entry 0 of the table is the empty
 * text.
 */
static uint64_t add_string(struct pprof *w, struct view text)
{
    if (!vec_push(&w->strings, text))
        w->buf.failed = true;
    return w->profile->texts.list.len + w->strings.len;
}

static int put_types(struct pprof *w, struct err *e)
{
    uint64_t count = add_string(w, view_of("count"));
    uint64_t bytes = add_string(w, view_of("bytes"));
    uint64_t space = add_string(w, view_of("space"));
    for (size_t i = 0; i < VALUES; i++) {
        uint64_t type = add_string(w, view_of(values[i].type));
        put_number(&w->message, 1, type);
        put_number(&w->message, 2, values[i].bytes ? bytes : count);
        if (end_message(w, PROFILE_SAMPLE_TYPE, e) != 0)
            return -1;
        if (i == INUSE_SPACE)
            put_number(&w->buf, PROFILE_DEFAULT_SAMPLE_TYPE, type);
    }
    put_number(&w->message, 1, space);
    put_number(&w->message, 2, bytes);
    return end_message(w, PROFILE_PERIOD_TYPE, e);
}

static void put_times(struct pprof *w)
{
    const struct trace_facts *f = &w->profile->summary->trace->facts;
    uint64_t seconds = f->capture_time;
    if (seconds < INT64_MAX / 1000000000)
        put_number(&w->buf, PROFILE_TIME_NANOS, seconds * 1000000000);
    if (f->last_time > 0)
        put_number(&w->buf, PROFILE_DURATION_NANOS, (uint64_t)f->last_time);
    put_number(&w->buf, PROFILE_PERIOD, 1);
}

static int put_samples(struct pprof *w, struct err *e)
{
    const struct profile *p = w->profile;
    uint64_t key = add_string(w, view_of("pool"));
    uint64_t first_pool = p->texts.list.len + w->strings.len + 1;
    for (size_t i = 0; i < p->summary->pools.len; i++)
        add_string(w, p->summary->pools.at[i].name);
    for (size_t i = 0; i < p->samples.len; i++) {
        const struct profile_sample *s = &p->samples.at[i];
        struct profile_walk walk = profile_walk_start(p, s);
        uint32_t location;
        while (profile_walk_next(&walk, &location))
            put_varint(&w->inner, (uint64_t)location + 1);
        end_inner(w, 1);
        for (size_t k = 0; k < VALUES; k++)
            put_varint(&w->inner, clamp(profile_value(&s->figures, values[k].of, values[k].bytes)));
        end_inner(w, 2);
        put_number(&w->inner, 1, key);
        put_number(&w->inner, 2, first_pool + s->pool);
        end_inner(w, 3);
        if (end_message(w, PROFILE_SAMPLE, e) != 0)
            return -1;
    }
    return 0;
}

static int put_mappings(struct pprof *w, struct err *e)
{
    const struct profile *p = w->profile;
    for (size_t i = 0; i < p->mappings.len; i++) {
        const struct profile_mapping *m = &p->mappings.at[i];
        put_number(&w->message, 1, i + 1);
        put_number(&w->message, 2, m->start);
        put_number(&w->message, 3, m->end);
        put_number(&w->message, 4, m->offset);
        put_number(&w->message, 5, m->file);
        put_number(&w->message, 6, m->build_id);
        put_number(&w->message, 7, m->named);
        put_number(&w->message, 8, m->lines);
        put_number(&w->message, 9, m->lines);
        put_number(&w->message, 10, m->inlines);
        if (end_message(w, PROFILE_MAPPING, e) != 0)
            return -1;
    }
    return 0;
}

static int put_locations(struct pprof *w, struct err *e)
{
    const struct profile *p = w->profile;
    for (size_t i = 0; i < p->locations.len; i++) {
        const struct profile_location *l = &p->locations.at[i];
        if (l->n == 0)
            continue;
        put_number(&w->message, 1, i + 1);
        put_number(&w->message, 2, l->mapping);
        put_number(&w->message, 3, l->address);
        for (uint32_t k = 0; k < l->n; k++) {
            const struct profile_line *line = &p->lines.at[l->first + k];
            put_number(&w->inner, 1, (uint64_t)line->function + 1);
            put_number(&w->inner, 2, line->line);
            end_inner(w, 4);
        }
        if (end_message(w, PROFILE_LOCATION, e) != 0)
            return -1;
    }
    return 0;
}

static int put_functions(struct pprof *w, struct err *e)
{
    const struct profile *p = w->profile;
    for (size_t i = 0; i < p->functions.len; i++) {
        const struct profile_function *f = &p->functions.at[i];
        put_number(&w->message, 1, i + 1);
        put_number(&w->message, 2, f->name);
        put_number(&w->message, 3, f->name);
        put_number(&w->message, 4, f->file);
        if (end_message(w, PROFILE_FUNCTION, e) != 0)
            return -1;
    }
    return 0;
}

static int put_strings(struct pprof *w, struct err *e)
{
    const struct profile *p = w->profile;
    put_bytes(&w->buf, PROFILE_STRING_TABLE, "", 0);
    for (size_t i = 0; i < p->texts.list.len; i++) {
        put_bytes(&w->buf, PROFILE_STRING_TABLE, p->texts.list.at[i].p, p->texts.list.at[i].len);
        if (flush(w, Z_NO_FLUSH, e) != 0)
            return -1;
    }
    for (size_t i = 0; i < w->strings.len; i++) {
        buf_clear(&w->texts);
        format_utf8(&w->texts, w->strings.at[i]);
        put_bytes(&w->buf, PROFILE_STRING_TABLE, w->texts.data, w->texts.len);
        if (flush(w, Z_NO_FLUSH, e) != 0)
            return -1;
    }
    return 0;
}

static int put_profile(struct pprof *w, struct err *e)
{
    put_times(w);
    if (put_types(w, e) != 0 || put_samples(w, e) != 0 || put_mappings(w, e) != 0 ||
        put_locations(w, e) != 0 || put_functions(w, e) != 0 || put_strings(w, e) != 0 ||
        flush(w, Z_FINISH, e) != 0)
        return -1;
    return fflush(w->out) == 0 ? 0 : err_errno(e, ERR_OUTPUT, "cannot write a profile");
}

int pprof_write(const struct profile *p, FILE *out, struct err *e)
{
    struct pprof w = {.profile = p, .out = out};
    if (deflateInit2(&w.zip, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) !=
        Z_OK)
        return err_no_memory(e, "a profile");
    int status = put_profile(&w, e);
    deflateEnd(&w.zip);
    buf_release(&w.buf);
    buf_release(&w.message);
    buf_release(&w.inner);
    buf_release(&w.texts);
    vec_release(&w.strings);
    return status;
}
