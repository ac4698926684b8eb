#include "mcp/result_cursor.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_reader.h"
#include "mcp/params.h"

#define CHUNK 100u
#define DEFAULT_LIMIT 15
#define DEFAULT_FRAMES 3
#define DEFAULT_BYTES 8192
#define PAGE_MEMBER 100u /* bytes that tell_page adds */

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
                       .fit = {(size_t)params_integer(arguments, "bytes", DEFAULT_BYTES),
                               (size_t)params_integer(arguments, "frames", DEFAULT_FRAMES)}};
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

/* Appends rows to the page until it has as many as asked for, or more bytes than an answer. */
static bool fill(const struct page *p, json_t *page, json_t *rows, size_t *bytes)
{
    size_t i;
    json_t *row;
    bool ok = true;
    json_array_foreach(rows, i, row)
    {
        if (!ok || json_array_size(page) >= p->limit || *bytes > p->fit.bytes)
            break;
        ok = answer_cut_row(&p->fit, row) && json_array_append(page, row) == 0;
        *bytes += answer_size(row);
    }
    return ok;
}

/* Names the list of rows, and the page of it that the document has; takes over `list`. */
static bool set_rows(const struct page *p, json_t *document, const char *rows, json_t *list,
                     uint64_t total)
{
    return json_object_set_new(document, rows, list) == 0 &&
           json_object_set_new(document, "page",
                               json_pack("{s:I, s:I, s:s}", "first", (json_int_t)p->first, "total",
                                         (json_int_t)total, "rows", rows)) == 0;
}

json_t *page_make(const struct page *p, struct tidetrace_result *r, const char *rows, struct err *e)
{
    return rows ? page_make_part(p, r, rows, 0, tidetrace_result_rows(r), e)
                : read_rows(r, 0, UINT64_MAX, e);
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
    json_t *list = json_array();
    json_t *document = NULL;
    bool ok = list != NULL;
    do {
        uint64_t n = least(least(p->limit, CHUNK), end - at);
        json_decref(document);
        document = ok ? read_rows(r, at, n, e) : NULL;
        ok = document && fill(p, list, json_object_get(document, rows), &bytes);
        at += n;
    } while (ok && at < end && json_array_size(list) < p->limit && bytes <= p->fit.bytes);
    if (ok && set_rows(p, document, rows, list, end - begin))
        return document;
    if (!ok)
        json_decref(list);
    json_decref(document);
    return e->code ? NULL : no_memory(e);
}

int page_add(json_t *document, struct tidetrace_result *r, const char *rows, uint64_t begin,
             uint64_t end, size_t keep, struct err *e)
{
    char left_out[64];
    uint64_t n = least(keep, end - begin);
    json_t *part = read_rows(r, begin, n, e);
    json_t *list = json_object_get(part, rows);
    snprintf(left_out, sizeof left_out, "%s_left_out", rows);
    bool ok = list && json_object_set(document, rows, list) == 0;
    if (ok && end - begin > n)
        ok = json_object_set_new(document, left_out, json_integer((json_int_t)(end - begin - n))) ==
             0;
    json_decref(part);
    return ok ? 0 : e->code ? -1 : err_no_memory(e, "an answer");
}

int page_take_rows(const struct page *p, json_t *document, const char *rows, json_t *all,
                   struct err *e)
{
    size_t bytes = 0;
    size_t total = json_array_size(all);
    json_t *list = json_array();
    json_t *rest = json_array();
    bool ok = list && rest;
    for (uint64_t i = p->first; ok && i < total && i - p->first < p->limit; i++)
        ok = json_array_append(rest, json_array_get(all, (size_t)i)) == 0;
    ok = ok && fill(p, list, rest, &bytes);
    json_decref(rest);
    if (ok && set_rows(p, document, rows, list, total))
        return 0;
    if (!ok)
        json_decref(list);
    return err_no_memory(e, "an answer");
}

json_t *page_make_other(const struct page *p, struct tidetrace_result *r, const char *rows,
                        struct err *e)
{
    json_t *document = read_rows(r, 0, 0, e);
    json_t *all = json_incref(json_object_get(document, rows));
    int status = document ? page_take_rows(p, document, rows, all, e) : -1;
    json_decref(all);
    if (status == 0)
        return document;
    json_decref(document);
    return NULL;
}

/* ---- the end of a page */

/* Leaves out rows that have no room; the first one always stays. */
static void drop_rows(json_t *document, json_t *list, size_t bytes)
{
    size_t size = answer_size(document);
    for (size_t n = json_array_size(list); n > 1 && size > bytes; n--) {
        size -= answer_size(json_array_get(list, n - 1)) + 1;
        (void)json_array_remove(list, n - 1);
    }
}

static int tell_page(const struct page *p, json_t *page, size_t count, struct err *e)
{
    char cursor[64];
    uint64_t total = (uint64_t)json_integer_value(json_object_get(page, "total"));
    uint64_t next = p->first + count;
    uint64_t more = count && next < total ? total - next : 0;
    snprintf(cursor, sizeof cursor, "%016" PRIx64 "-%" PRIu64, p->question, next);
    json_t *told =
        json_pack("{s:I, s:I, s:o}", "count", (json_int_t)count, "more", (json_int_t)more,
                  "next_cursor", more ? json_string(cursor) : json_null());
    bool ok = told && json_object_update(page, told) == 0;
    json_decref(told);
    return ok ? 0 : err_no_memory(e, "an answer");
}

/* What cannot be shortened is refused: a part of a chart would be taken for the whole. */
static int check_size(const struct page *p, const json_t *document, struct err *e)
{
    size_t size = answer_size(document);
    return size <= p->fit.bytes
               ? 0
               : err_set(e, ERR_USAGE,
                         "this answer takes %zu bytes: ask for less of it (fewer buckets, lines, "
                         "samples or frames), or for more `bytes`",
                         size);
}

int page_fit(const struct page *p, json_t *document, struct err *e)
{
    json_t *page = json_object_get(document, "page");
    json_t *name = json_incref(json_object_get(page, "rows"));
    json_t *list = json_object_get(document, json_string_value(name));
    bool ok = answer_cut_head(&p->fit, document, json_string_value(name),
                              page ? p->fit.bytes / 2 : p->fit.bytes);
    json_decref(name);
    if (!ok)
        return err_no_memory(e, "an answer");
    if (page) {
        (void)json_object_del(page, "rows");
        drop_rows(document, list, p->fit.bytes - PAGE_MEMBER);
        if (tell_page(p, page, json_array_size(list), e) != 0)
            return -1;
    }
    return check_size(p, document, e);
}
