#include "report/write/json_value.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/format.h"

json_t *json_text(struct view text)
{
    struct buf b = {0};
    format_utf8(&b, text);
    json_t *value = b.failed ? NULL : json_stringn(buf_str(&b), b.len);
    buf_release(&b);
    return value;
}

json_t *json_text_or_null(struct view text)
{
    return text.len ? json_text(text) : json_null();
}

json_t *json_count(uint64_t n)
{
    return n <= INT64_MAX ? json_integer((json_int_t)n) : json_real((double)n);
}

json_t *json_address(uint64_t address)
{
    char text[24];
    snprintf(text, sizeof text, "0x%" PRIx64, address);
    return json_string(text);
}

json_t *json_place(json_t *to, const struct frame_view *f)
{
    to = json_with(to, "function", json_text_or_null(f->function));
    to = json_with(to, "file", json_text_or_null(f->file));
    to = json_with(to, "line", f->line ? json_integer(f->line) : json_null());
    to = json_with(to, "image", json_text_or_null(f->image));
    return f->name_from.len ? json_with(to, "name_from", json_text(f->name_from)) : to;
}

/* json_place, "address" and "inline". */
static json_t *json_frame(const struct frame_view *f)
{
    json_t *to = json_place(json_object(), f);
    to = json_with(to, "address", f->address ? json_address(f->address) : json_null());
    return json_with(to, "inline", json_boolean(f->is_inline));
}

json_t *json_callstack(const struct trace *t, uint32_t callstack)
{
    json_t *list = json_array();
    struct frame_walk walk = frame_walk_start(t, callstack);
    struct frame_view f;
    while (list && frame_walk_next(&walk, &f)) {
        list = json_add(list, json_frame(&f));
    }
    return list;
}

json_t *json_with(json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new(object, key, value) == 0)
        return object;
    json_decref(object);
    return NULL;
}

json_t *json_add(json_t *list, json_t *value)
{
    if (json_array_append_new(list, value) == 0)
        return list;
    json_decref(list);
    return NULL;
}

/*
 * jansson escapes only the control characters below 0x20. Terminals also interpret DEL and C1
 * (U+0080 to U+009F, encoded as 0xc2 and a second byte). In JSON these can occur only in strings,
 * so they are escaped everywhere. jansson passes whole characters.
 */
static int put_text(const char *text, size_t len, void *ctx)
{
    struct buf *out = ctx;
    size_t from = 0;
    for (size_t i = 0; i < len; i++) {
        const uint8_t *p = (const uint8_t *)text + i;
        bool c1 = p[0] == 0xc2 && i + 1 < len && p[1] < 0xa0;
        if (p[0] != 0x7f && !c1)
            continue;
        buf_put(out, text + from, i - from);
        buf_printf(out, "\\u%04x", (unsigned)p[c1]);
        i += c1;
        from = i + 1;
    }
    buf_put(out, text + from, len - from);
    return out->failed ? -1 : 0;
}

bool json_put(struct buf *out, json_t *value, size_t flags)
{
    bool ok = value && json_dump_callback(value, put_text, out, flags | JSON_ENCODE_ANY) == 0;
    json_decref(value);
    return ok;
}
