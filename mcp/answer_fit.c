#include "mcp/answer_fit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

#define TEXT_MIN 64u
#define TEXT_MAX 2000u
#define TEXT_SHARE 16u /* a text is at most so small a part of an answer */
#define LIST_MAX 400u  /* elements that are looked at, of a list in the head of an answer */

size_t answer_size(const json_t *value)
{
    return json_dumpb(value, NULL, 0, JSON_COMPACT | JSON_ENCODE_ANY);
}

/* ---- texts */

static size_t text_max(const struct answer_limits *l)
{
    size_t share = l->bytes / TEXT_SHARE;
    return share < TEXT_MIN ? TEXT_MIN : share > TEXT_MAX ? TEXT_MAX : share;
}

/* Cuts a long text of a trace, between two characters. */
static json_t *cut_text(const json_t *value, size_t most)
{
    size_t n = most;
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

/* ---- lists */

/* Adds to the number of elements that a list of the object has lost. */
static bool count_left_out(json_t *object, const char *key, size_t count)
{
    char left_out[64];
    snprintf(left_out, sizeof left_out, "%.50s_left_out", key);
    json_int_t before = json_integer_value(json_object_get(object, left_out));
    return count == 0 ||
           json_object_set_new(object, left_out, json_integer(before + (json_int_t)count)) == 0;
}

static bool cut_list(json_t *object, const char *key, size_t keep)
{
    json_t *list = json_object_get(object, key);
    size_t n = json_array_size(list);
    for (size_t i = n; i > keep; i--)
        (void)json_array_remove(list, i - 1);
    return n <= keep || count_left_out(object, key, n - keep);
}

/* ---- call stacks */

static const char *text_of(const json_t *frame, const char *key)
{
    const char *text = json_string_value(json_object_get(frame, key));
    return text ? text : "";
}

static json_t *frame_text(const json_t *frame)
{
    struct buf b = {0};
    const char *function = text_of(frame, "function");
    const char *file = text_of(frame, "file");
    json_int_t line = json_integer_value(json_object_get(frame, "line"));
    if (!*function)
        buf_printf(&b, "%s %s", text_of(frame, "image"), text_of(frame, "address"));
    else if (!*file)
        buf_puts(&b, function);
    else
        buf_printf(&b, "%s (%s:%lld)", function, file, (long long)line);
    json_t *text = b.failed ? NULL : json_stringn((const char *)b.data, b.len);
    buf_release(&b);
    return text;
}

/* Where the row's site is in its call stack; 0 if it is not there. */
static size_t site_in(const json_t *stack, const json_t *row)
{
    size_t i;
    json_t *frame;
    const json_t *function = json_object_get(row, "function");
    json_array_foreach((json_t *)stack, i, frame)
    {
        if (json_is_string(function) && json_equal(json_object_get(frame, "function"), function) &&
            json_equal(json_object_get(frame, "line"), json_object_get(row, "line")))
            return i;
    }
    return 0;
}

static bool cut_stack(const struct answer_limits *l, json_t *row, const char *key)
{
    const json_t *stack = json_object_get(row, key);
    size_t n = json_array_size(stack);
    size_t begin = n > l->frames ? site_in(stack, row) : 0;
    json_t *texts = json_array();
    bool ok = texts != NULL;
    for (size_t i = begin; ok && i < n && i - begin < l->frames; i++)
        ok = json_array_append_new(texts, frame_text(json_array_get(stack, i))) == 0;
    size_t shown = json_array_size(texts);
    ok = ok && json_object_set(row, key, texts) == 0 && count_left_out(row, key, n - shown);
    json_decref(texts);
    return ok;
}

/* ---- rows */

static bool cut_value(const struct answer_limits *l, json_t *value);

static bool cut_elements(const struct answer_limits *l, json_t *list)
{
    size_t i;
    json_t *value;
    bool ok = true;
    json_array_foreach(list, i, value)
    {
        if (json_is_string(value) && json_string_length(value) > text_max(l))
            ok = json_array_set_new(list, i, cut_text(value, text_max(l))) == 0 && ok;
        else
            ok = cut_value(l, value) && ok;
    }
    return ok;
}

static bool cut_value(const struct answer_limits *l, json_t *value)
{
    return json_is_object(value)  ? answer_cut_row(l, value)
           : json_is_array(value) ? cut_elements(l, value)
                                  : true;
}

static bool is_stack(const json_t *value)
{
    return json_is_object(json_array_get(value, 0)) &&
           json_object_get(json_array_get(value, 0), "inline");
}

static bool cut_member(const struct answer_limits *l, json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    if (json_is_null(value))
        return json_object_del(object, key) == 0;
    if (json_is_string(value) && json_string_length(value) > text_max(l))
        return json_object_set_new(object, key, cut_text(value, text_max(l))) == 0;
    bool ok = !is_stack(value) || cut_stack(l, object, key);
    return cut_value(l, json_object_get(object, key)) && ok;
}

/* The names first: cut_stack adds members. */
static json_t *keys_of(json_t *object)
{
    const char *key;
    json_t *value;
    json_t *keys = json_array();
    bool ok = keys != NULL;
    json_object_foreach(object, key, value) ok =
        ok && json_array_append_new(keys, json_string(key)) == 0;
    if (ok)
        return keys;
    json_decref(keys);
    return NULL;
}

static bool cut_members(const struct answer_limits *l, json_t *object, const char *except)
{
    size_t i;
    json_t *key;
    json_t *keys = keys_of(object);
    bool ok = keys != NULL;
    json_array_foreach(keys, i, key)
    {
        const char *name = json_string_value(key);
        if (!except || strcmp(name, except) != 0)
            ok = cut_member(l, object, name) && ok;
    }
    json_decref(keys);
    return ok;
}

bool answer_cut_row(const struct answer_limits *l, json_t *row)
{
    return cut_members(l, row, NULL);
}

/* ---- the head of a document */

/* The list of two or more elements that takes most; NULL: there is none. */
static const char *largest_list(json_t *document, const char *except)
{
    const char *key;
    const char *found = NULL;
    json_t *value;
    size_t most = 0;
    json_object_foreach(document, key, value)
    {
        if (json_array_size(value) < 2 || (except && strcmp(key, except) == 0))
            continue;
        size_t size = answer_size(value);
        found = size > most ? key : found;
        most = size > most ? size : most;
    }
    return found;
}

bool answer_cut_head(const struct answer_limits *l, json_t *document, const char *rows,
                     size_t bytes)
{
    const char *key;
    bool ok = true;
    size_t apart = rows ? answer_size(json_object_get(document, rows)) : 0;
    for (;;) {
        key = largest_list(document, rows);
        if (!key || json_array_size(json_object_get(document, key)) <= LIST_MAX)
            break;
        ok = cut_list(document, key, LIST_MAX) && ok;
    }
    ok = cut_members(l, document, rows) && ok;
    while (ok && answer_size(document) > bytes + apart && (key = largest_list(document, rows)))
        ok = cut_list(document, key, json_array_size(json_object_get(document, key)) / 2);
    return ok;
}
