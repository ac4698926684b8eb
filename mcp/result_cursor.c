#include "mcp/result_cursor.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_reader.h"
#include "mcp/params.h"

#define CHUNK 100u
#define DEFAULT_LIMIT 50
#define DEFAULT_FRAMES 12

static int wrong_cursor(struct err *e)
{
    return err_set(e, ERR_USAGE,
                   "this cursor belongs to another question, or the trace changed: ask without "
                   "a cursor");
}

int page_take(struct page *p, const json_t *arguments, uint64_t question, struct err *e)
{
    const char *cursor = params_text(arguments, "cursor");
    *p = (struct page){.question = question,
                       .limit = (uint64_t)params_integer(arguments, "limit", DEFAULT_LIMIT),
                       .frames =
                           (size_t)params_integer(arguments, "call_stack_frames", DEFAULT_FRAMES)};
    if (!cursor)
        return 0;
    char *end;
    if (strlen(cursor) > 40 || strspn(cursor, "0123456789abcdef-") != strlen(cursor))
        return wrong_cursor(e);
    errno = 0;
    uint64_t of = strtoull(cursor, &end, 16);
    if (errno || of != question || *end != '-' || !end[1] || end[1] == '-')
        return wrong_cursor(e);
    p->first = strtoull(end + 1, &end, 10);
    return errno || *end ? wrong_cursor(e) : 0;
}

/* ---- limits of a row */

/* Cuts a long text of a trace, between two characters. */
static json_t *cut_text(const json_t *value)
{
    size_t n = PAGE_TEXT_MAX;
    const char *text = json_string_value(value);
    while (n && ((unsigned char)text[n] & 0xc0) == 0x80)
        n--;
    char *copy = malloc(n + 40);
    if (!copy)
        return NULL;
    memcpy(copy, text, n);
    int more = snprintf(copy + n, 40, "… (%zu bytes)", json_string_length(value));
    json_t *out = json_stringn(copy, n + (size_t)more);
    free(copy);
    return out;
}

static bool cut_stack(json_t *object, const char *key, size_t frames)
{
    char left_out[64];
    json_t *stack = json_object_get(object, key);
    size_t n = json_array_size(stack);
    if (n <= frames)
        return true;
    for (size_t i = n; i > frames; i--)
        (void)json_array_remove(stack, i - 1);
    snprintf(left_out, sizeof left_out, "%s_left_out", key);
    return json_object_set_new(object, left_out, json_integer((json_int_t)(n - frames))) == 0;
}

static bool bound_list(json_t *list, size_t frames);

/* Cuts all texts and call stacks in an object, recursively. False if memory is short. */
static bool bound_object(json_t *object, size_t frames)
{
    static const char *const stacks[] = {"callstack", "free_callstack", "held_by"};
    const char *key;
    json_t *value;
    bool ok = true;
    for (size_t i = 0; i < sizeof stacks / sizeof *stacks; i++)
        ok = cut_stack(object, stacks[i], frames) && ok;
    json_object_foreach(object, key, value)
    {
        if (json_is_string(value) && json_string_length(value) > PAGE_TEXT_MAX)
            ok = json_object_set_new(object, key, cut_text(value)) == 0 && ok;
        else if (json_is_object(value))
            ok = bound_object(value, frames) && ok;
        else if (json_is_array(value))
            ok = bound_list(value, frames) && ok;
    }
    return ok;
}

static bool bound_list(json_t *list, size_t frames)
{
    size_t i;
    json_t *value;
    bool ok = true;
    json_array_foreach(list, i, value)
    {
        if (json_is_string(value) && json_string_length(value) > PAGE_TEXT_MAX)
            ok = json_array_set_new(list, i, cut_text(value)) == 0 && ok;
        else if (json_is_object(value))
            ok = bound_object(value, frames) && ok;
    }
    return ok;
}

bool page_cut(const struct page *p, json_t *document, const char *key, size_t keep)
{
    json_t *list = json_object_get(document, key);
    size_t n = json_array_size(list);
    char left_out[64];
    for (size_t i = n; i > keep; i--)
        (void)json_array_remove(list, i - 1);
    bool ok = bound_list(list, p->frames);
    snprintf(left_out, sizeof left_out, "%s_left_out", key);
    if (n > keep)
        ok = json_object_set_new(document, left_out, json_integer((json_int_t)(n - keep))) == 0 &&
             ok;
    return ok;
}

/* ---- pages */

static json_t *no_memory(struct err *e)
{
    err_no_memory(e, "an answer");
    return NULL;
}

/* Reads rows [first, first + count) with the result's head, as a value. */
static json_t *read_rows(struct tidetrace_result *r, uint64_t first, uint64_t count, struct err *e)
{
    struct tidetrace_error error;
    char *text;
    size_t size;
    if (tidetrace_result_json(r, first, count, &text, &size, &error) != TIDETRACE_OK) {
        err_set(e, ERR_MEMORY, "%s", error.text);
        return NULL;
    }
    json_t *value;
    /* Text written by this program is valid JSON. */
    (void)json_read((struct view){text, size}, true, &value);
    tidetrace_free(text);
    return value ? value : no_memory(e);
}

/* Moves rows into the page until it is full. False if memory is short. */
static bool fill(const struct page *p, json_t *page, json_t *rows, size_t *bytes, bool *full)
{
    size_t i;
    json_t *row;
    bool ok = true;
    json_array_foreach(rows, i, row)
    {
        ok = bound_object(row, p->frames) && ok;
        size_t size = json_dumpb(row, NULL, 0, JSON_COMPACT);
        *full = json_array_size(page) >= p->limit ||
                (json_array_size(page) && *bytes + size > PAGE_BYTES);
        if (*full || !ok)
            break;
        *bytes += size;
        ok = json_array_append(page, row) == 0;
    }
    return ok;
}

/* Takes over both references. */
static json_t *finish(const struct page *p, json_t *document, const char *rows, json_t *list,
                      uint64_t total, struct err *e)
{
    char cursor[64];
    uint64_t count = json_array_size(list);
    uint64_t next = p->first + count;
    bool more = count && next < total;
    snprintf(cursor, sizeof cursor, "%016" PRIx64 "-%" PRIu64, p->question, next);
    json_t *page = json_pack("{s:I, s:I, s:I, s:o}", "first", (json_int_t)p->first, "count",
                             (json_int_t)count, "total", (json_int_t)total, "next_cursor",
                             more ? json_string(cursor) : json_null());
    bool ok = bound_object(document, p->frames);
    ok = json_object_set_new(document, rows, list) == 0 && ok;
    if (json_object_set_new(document, "page", page) == 0 && ok)
        return document;
    json_decref(document);
    return no_memory(e);
}

static json_t *whole(const struct page *p, struct tidetrace_result *r, struct err *e)
{
    json_t *document = read_rows(r, 0, UINT64_MAX, e);
    if (!document || bound_object(document, p->frames))
        return document;
    json_decref(document);
    return no_memory(e);
}

json_t *page_make(const struct page *p, struct tidetrace_result *r, const char *rows, struct err *e)
{
    return rows ? page_make_part(p, r, rows, 0, tidetrace_result_rows(r), e) : whole(p, r, e);
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

json_t *page_make_part(const struct page *p, struct tidetrace_result *r, const char *rows,
                       uint64_t begin, uint64_t end, struct err *e)
{
    uint64_t at = begin + least(p->first, end - begin);
    size_t bytes = 0;
    bool full = false;
    json_t *list = json_array();
    json_t *document = NULL;
    do {
        uint64_t n = least(least(p->limit, CHUNK), end - at);
        json_t *part = read_rows(r, at, n, e);
        if (!part || !fill(p, list, json_object_get(part, rows), &bytes, &full)) {
            json_decref(part);
            json_decref(document);
            json_decref(list);
            return e->code ? NULL : no_memory(e);
        }
        json_decref(document);
        document = part;
        at += n;
    } while (!full && at < end && json_array_size(list) < p->limit);
    return finish(p, document, rows, list, end - begin, e);
}

int page_add(const struct page *p, json_t *document, struct tidetrace_result *r, const char *rows,
             uint64_t begin, uint64_t end, size_t keep, struct err *e)
{
    char left_out[64];
    uint64_t n = least(keep, end - begin);
    json_t *part = read_rows(r, begin, n, e);
    json_t *list = json_object_get(part, rows);
    snprintf(left_out, sizeof left_out, "%s_left_out", rows);
    bool ok = list && bound_list(list, p->frames) && json_object_set(document, rows, list) == 0;
    if (ok && end - begin > n)
        ok = json_object_set_new(document, left_out, json_integer((json_int_t)(end - begin - n))) ==
             0;
    json_decref(part);
    return ok ? 0 : e->code ? -1 : err_no_memory(e, "an answer");
}

json_t *page_make_other(const struct page *p, struct tidetrace_result *r, const char *rows,
                        struct err *e)
{
    size_t bytes = 0;
    bool full = false;
    json_t *list = json_array();
    json_t *document = read_rows(r, 0, 0, e);
    json_t *all = json_object_get(document, rows);
    uint64_t total = json_array_size(all);
    for (uint64_t i = 0; i < p->first && i < total; i++)
        (void)json_array_remove(all, 0);
    if (document && fill(p, list, all, &bytes, &full))
        return finish(p, document, rows, list, total, e);
    json_decref(document);
    json_decref(list);
    return e->code ? NULL : no_memory(e);
}
