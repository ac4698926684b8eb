#include "import/json_text.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void json_text_release(struct json_text *j)
{
    buf_release(&j->bytes);
    buf_release(&j->scratch);
    vec_release(&j->members);
    vec_release(&j->levels);
    *j = (struct json_text){0};
}

void json_text_clear(struct json_text *j)
{
    buf_clear(&j->bytes);
    j->members.len = 0;
    j->levels.len = 0;
    j->key = j->key_len = j->order = 0;
}

static int done(const struct json_text *j, struct err *e)
{
    return j->bytes.failed || j->scratch.failed ? err_no_memory(e, "an event's arguments") : 0;
}

/* ---- numbers */

/* nlohmann writes numbers from 10^-5 to 10^15 without an exponent. */
static void put_decimal(struct buf *to, const char *digits, int n, int point)
{
    if (point >= n && point <= 15) {
        buf_put(to, digits, (size_t)n);
        for (int i = n; i < point; i++)
            buf_u8(to, '0');
        buf_puts(to, ".0");
    } else if (point > 0 && point <= 15) {
        buf_put(to, digits, (size_t)point);
        buf_u8(to, '.');
        buf_put(to, digits + point, (size_t)(n - point));
    } else if (point > -4 && point <= 0) {
        buf_puts(to, "0.");
        for (int i = point; i < 0; i++)
            buf_u8(to, '0');
        buf_put(to, digits, (size_t)n);
    } else {
        buf_u8(to, (uint8_t)digits[0]);
        if (n > 1) {
            buf_u8(to, '.');
            buf_put(to, digits + 1, (size_t)n - 1);
        }
        buf_printf(to, "e%c%02d", point - 1 < 0 ? '-' : '+', abs(point - 1));
    }
}

static void put_fraction(struct buf *to, double v)
{
    char text[40], digits[20] = "0";
    if (signbit(v))
        buf_u8(to, '-');
    v = fabs(v);
    if (v == 0) {
        buf_puts(to, "0.0");
        return;
    }
    /* Every double but the smallest keeps 15 digits. */
    for (int precision = v < 1e-300 ? 1 : 15; precision <= 17; precision++) {
        snprintf(text, sizeof text, "%.*e", precision - 1, v);
        if (strtod(text, NULL) == v)
            break;
    }
    int n = 0;
    const char *p = text;
    for (; *p && *p != 'e'; p++) {
        if (*p != '.')
            digits[n++] = *p;
    }
    int point = (int)strtol(p + 1, NULL, 10) + 1;
    while (n > 1 && digits[n - 1] == '0')
        n--;
    put_decimal(to, digits, n, point);
}

void json_number_text(struct buf *to, struct view digits)
{
    char text[400];
    if (digits.len >= sizeof text) {
        buf_put(to, digits.p, digits.len);
        return;
    }
    memcpy(text, digits.p, digits.len);
    text[digits.len] = 0;
    if (!strpbrk(text, ".eE")) {
        errno = 0;
        if (text[0] == '-') {
            long long v = strtoll(text, NULL, 10);
            if (errno == 0) {
                buf_printf(to, "%lld", v);
                return;
            }
        } else {
            unsigned long long v = strtoull(text, NULL, 10);
            if (errno == 0) {
                buf_printf(to, "%llu", v);
                return;
            }
        }
    }
    double v = strtod(text, NULL);
    if (isfinite(v))
        put_fraction(to, v);
    else
        buf_put(to, digits.p, digits.len);
}

/* ---- texts */

static void put_quoted(struct buf *to, struct view text)
{
    static const char from[] = "\b\t\n\f\r\"\\", into[] = "btnfr\"\\";
    buf_u8(to, '"');
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = (uint8_t)text.p[i];
        const char *at = c ? strchr(from, c) : NULL;
        if (at) {
            buf_u8(to, '\\');
            buf_u8(to, (uint8_t)into[at - from]);
        } else if (c < 0x20) {
            buf_printf(to, "\\u%04x", c);
        } else {
            buf_u8(to, c);
        }
    }
    buf_u8(to, '"');
}

/* ---- pieces */

/* Makes the bytes from `start` on a value under the current key. */
static int add_member(struct json_text *j, size_t start, enum json_kind kind, struct err *e)
{
    struct json_member m = {.key = j->key,
                            .key_len = j->key_len,
                            .value = start,
                            .value_len = j->bytes.len - start,
                            .order = j->order++,
                            .kind = kind};
    j->key = j->key_len = 0;
    return vec_push(&j->members, m) ? done(j, e) : err_no_memory(e, "an event's arguments");
}

/* Elements of a top-level array are keyed by their index. */
static void number_element(struct json_text *j)
{
    if (j->levels.len != 1 || j->levels.at[0].is_object)
        return;
    j->key = j->bytes.len;
    buf_printf(&j->bytes, "%zu", j->members.len);
    j->key_len = j->bytes.len - j->key;
}

int json_text_open(struct json_text *j, bool is_object, struct err *e)
{
    number_element(j);
    const struct json_level level = {.first = j->members.len,
                                     .start = j->bytes.len,
                                     .key = j->key,
                                     .key_len = j->key_len,
                                     .is_object = is_object};
    j->key = j->key_len = 0;
    return vec_push(&j->levels, level) ? done(j, e) : err_no_memory(e, "an event's arguments");
}

int json_text_key(struct json_text *j, struct view key, struct err *e)
{
    j->key = j->bytes.len;
    j->key_len = key.len;
    buf_put(&j->bytes, key.p, key.len);
    return done(j, e);
}

int json_text_string(struct json_text *j, struct view text, struct err *e)
{
    number_element(j);
    size_t start = j->bytes.len;
    if (j->levels.len <= 1)
        buf_put(&j->bytes, text.p, text.len);
    else
        put_quoted(&j->bytes, text);
    return add_member(j, start, JSON_STRING, e);
}

int json_text_number(struct json_text *j, struct view digits, struct err *e)
{
    number_element(j);
    size_t start = j->bytes.len;
    json_number_text(&j->bytes, digits);
    return add_member(j, start, JSON_NUMBER, e);
}

int json_text_word(struct json_text *j, const char *word, enum json_kind kind, struct err *e)
{
    number_element(j);
    size_t start = j->bytes.len;
    buf_puts(&j->bytes, word);
    return add_member(j, start, kind, e);
}

/* ---- the end of an object or array */

static int compare_members(const void *a, const void *b, void *ctx)
{
    const struct json_member *x = a, *y = b;
    const char *p = json_text_key_of(ctx, x).p, *q = json_text_key_of(ctx, y).p;
    int c = memcmp(p, q, x->key_len < y->key_len ? x->key_len : y->key_len);
    if (c == 0 && x->key_len != y->key_len)
        c = x->key_len < y->key_len ? -1 : 1;
    return c ? c : (x->order > y->order) - (x->order < y->order);
}

static bool same_key(const struct json_text *j, const struct json_member *a,
                     const struct json_member *b)
{
    return view_equal(json_text_key_of(j, a), json_text_key_of(j, b));
}

/* Sorts members by name and keeps the last of equal names. */
static void sort_members(struct json_text *j, size_t first)
{
    size_t n = j->members.len - first, kept = 0;
    if (n == 0)
        return;
    struct json_member *m = j->members.at + first;
    qsort_r(m, n, sizeof *m, compare_members, j);
    for (size_t i = 0; i < n; i++) {
        if (i + 1 == n || !same_key(j, &m[i], &m[i + 1]))
            m[kept++] = m[i];
    }
    j->members.len = first + kept;
}

static void compose(struct json_text *j, const struct json_level *level)
{
    struct buf *to = &j->scratch;
    buf_clear(to);
    buf_u8(to, level->is_object ? '{' : '[');
    for (size_t i = level->first; i < j->members.len; i++) {
        const struct json_member *m = &j->members.at[i];
        if (i > level->first)
            buf_u8(to, ',');
        if (level->is_object) {
            put_quoted(to, json_text_key_of(j, m));
            buf_u8(to, ':');
        }
        buf_put(to, j->bytes.data + m->value, m->value_len);
    }
    buf_u8(to, level->is_object ? '}' : ']');
}

int json_text_close(struct json_text *j, struct err *e)
{
    if (done(j, e) != 0)
        return -1;
    const struct json_level level = j->levels.at[--j->levels.len];
    if (level.is_object)
        sort_members(j, level.first);
    if (j->levels.len == 0)
        return 0;
    compose(j, &level);
    j->members.len = level.first;
    j->bytes.len = level.start;
    buf_put(&j->bytes, j->scratch.data, j->scratch.len);
    j->key = level.key;
    j->key_len = level.key_len;
    return add_member(j, level.start, JSON_CONTAINER, e);
}

const struct json_member *json_text_find(const struct json_text *j, const char *key)
{
    for (size_t i = 0; i < j->members.len; i++) {
        if (view_equal(json_text_key_of(j, &j->members.at[i]), view_of(key)))
            return &j->members.at[i];
    }
    return NULL;
}
