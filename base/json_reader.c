#include "base/json_reader.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

#define NUMBER_BYTES_MAX 64u

struct reader {
    const char *at, *end;
    struct buf text; /* of the current string */
    unsigned depth;
    bool nul_allowed;
    bool no_memory;
};

static json_t *read_value(struct reader *r);

static void skip_blanks(struct reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r'))
        r->at++;
}

/* Skips blanks and takes the next character if it is `c`. */
static bool take(struct reader *r, char c)
{
    skip_blanks(r);
    if (r->at == r->end || *r->at != c)
        return false;
    r->at++;
    return true;
}

static json_t *made(struct reader *r, json_t *value)
{
    r->no_memory |= value == NULL;
    return value;
}

/* ---- strings */

static bool read_hex(struct reader *r, uint32_t *code)
{
    *code = 0;
    if (r->end - r->at < 4)
        return false;
    for (int i = 0; i < 4; i++) {
        char c = *r->at++;
        uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a' + 10)
                         : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A' + 10)
                                                : 16;
        if (digit > 15)
            return false;
        *code = *code << 4 | digit;
    }
    return true;
}

static void put_utf8(struct buf *b, uint32_t c)
{
    if (c < 0x80) {
        buf_u8(b, (uint8_t)c);
    } else if (c < 0x800) {
        buf_u8(b, (uint8_t)(0xc0 | c >> 6));
        buf_u8(b, (uint8_t)(0x80 | (c & 0x3f)));
    } else {
        if (c < 0x10000) {
            buf_u8(b, (uint8_t)(0xe0 | c >> 12));
        } else {
            buf_u8(b, (uint8_t)(0xf0 | c >> 18));
            buf_u8(b, (uint8_t)(0x80 | (c >> 12 & 0x3f)));
        }
        buf_u8(b, (uint8_t)(0x80 | (c >> 6 & 0x3f)));
        buf_u8(b, (uint8_t)(0x80 | (c & 0x3f)));
    }
}

/* Reads the hexadecimal digits after "\u": one character, or both surrogates of one. */
static bool read_unicode(struct reader *r)
{
    uint32_t code;
    uint32_t low;
    if (!read_hex(r, &code) || (code == 0 && !r->nul_allowed))
        return false;
    if (code >= 0xd800 && code < 0xe000) {
        if (code >= 0xdc00 || r->end - r->at < 6 || r->at[0] != '\\' || r->at[1] != 'u')
            return false;
        r->at += 2;
        if (!read_hex(r, &low) || low < 0xdc00 || low > 0xdfff)
            return false;
        code = 0x10000 + ((code & 0x3ff) << 10) + (low & 0x3ff);
    }
    put_utf8(&r->text, code);
    return true;
}

static bool read_escape(struct reader *r)
{
    static const char from[] = "\"\\/bfnrt";
    static const char to[] = "\"\\/\b\f\n\r\t";
    char c = r->at < r->end ? *r->at++ : 0;
    if (c == 'u')
        return read_unicode(r);
    const char *which = c ? strchr(from, c) : NULL;
    if (which)
        buf_u8(&r->text, (uint8_t)to[which - from]);
    return which != NULL;
}

/* Reads the rest of a string, after its opening quote, into r->text. */
static bool read_text(struct reader *r)
{
    buf_clear(&r->text);
    while (r->at < r->end && *r->at != '"') {
        const char *plain = r->at;
        while (r->at < r->end && *r->at != '"' && *r->at != '\\' && (uint8_t)*r->at >= 0x20)
            r->at++;
        buf_put(&r->text, plain, (size_t)(r->at - plain));
        if (r->at < r->end && *r->at == '\\') {
            r->at++;
            if (!read_escape(r))
                return false;
        } else if (r->at < r->end && *r->at != '"') {
            return false;
        }
    }
    bool closed = r->at < r->end;
    r->at += closed;
    r->no_memory |= r->text.failed;
    return closed && !r->no_memory;
}

static bool is_utf8(const struct buf *b)
{
    size_t i = 0;
    while (i < b->len) {
        uint8_t c = b->data[i++];
        int more = c < 0x80 ? 0 : c >= 0xc2 && c < 0xe0 ? 1 : c >= 0xe0 && c < 0xf0 ? 2 : 3;
        uint8_t least = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
        uint8_t most = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
        if ((c >= 0x80 && c < 0xc2) || c > 0xf4)
            return false;
        for (; more; more--, least = 0x80, most = 0xbf) {
            if (i == b->len || b->data[i] < least || b->data[i] > most)
                return false;
            i++;
        }
    }
    return true;
}

static json_t *read_string(struct reader *r)
{
    if (!read_text(r) || !is_utf8(&r->text))
        return NULL;
    return made(r,
                json_stringn_nocheck(r->text.len ? (const char *)r->text.data : "", r->text.len));
}

/* ---- numbers and words */

static const char *skip_digits(const char *at, const char *end)
{
    while (at < end && *at >= '0' && *at <= '9')
        at++;
    return at;
}

/* The end of the number at `at`; NULL if there is no valid number. */
static const char *end_of_number(const char *at, const char *end, bool *whole)
{
    at += at < end && *at == '-';
    const char *digits = at;
    at = skip_digits(at, end);
    if (at == digits || (*digits == '0' && at > digits + 1))
        return NULL;
    *whole = true;
    if (at < end && *at == '.') {
        digits = ++at;
        at = skip_digits(at, end);
        if (at == digits)
            return NULL;
        *whole = false;
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        at++;
        at += at < end && (*at == '+' || *at == '-');
        digits = at;
        at = skip_digits(at, end);
        if (at == digits)
            return NULL;
        *whole = false;
    }
    return at;
}

static json_t *read_number(struct reader *r)
{
    char copy[NUMBER_BYTES_MAX];
    bool whole = true;
    const char *end = end_of_number(r->at, r->end, &whole);
    size_t n = end ? (size_t)(end - r->at) : 0;
    if (n == 0 || n >= sizeof copy)
        return NULL;
    memcpy(copy, r->at, n);
    copy[n] = 0;
    r->at = end;
    errno = 0;
    long long integer = whole ? strtoll(copy, NULL, 10) : 0;
    if (whole)
        return errno ? NULL : made(r, json_integer(integer));
    double real = strtod(copy, NULL);
    return isfinite(real) ? made(r, json_real(real)) : NULL;
}

static json_t *read_word(struct reader *r)
{
    static const struct {
        const char *word;
        json_t *(*make)(void);
    } words[] = {{"true", json_true}, {"false", json_false}, {"null", json_null}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t n = strlen(words[i].word);
        if ((size_t)(r->end - r->at) >= n && memcmp(r->at, words[i].word, n) == 0) {
            r->at += n;
            return words[i].make();
        }
    }
    return NULL;
}

/* ---- lists and objects */

static bool read_elements(struct reader *r, json_t *list)
{
    if (take(r, ']'))
        return true;
    do {
        json_t *one = read_value(r);
        if (!one)
            return false;
        if (json_array_append_new(list, one) != 0) {
            r->no_memory = true;
            return false;
        }
    } while (take(r, ','));
    return take(r, ']');
}

/* Refuses keys with a NUL, which C string functions would cut. */
static char *read_key(struct reader *r, const json_t *object)
{
    if (!take(r, '"') || !read_text(r) || !is_utf8(&r->text) ||
        (r->text.len && memchr(r->text.data, 0, r->text.len)))
        return NULL;
    const char *key = buf_str(&r->text);
    if (r->text.failed || json_object_get(object, key)) {
        r->no_memory |= r->text.failed;
        return NULL;
    }
    char *copy = strdup(key); /* reading the value may overwrite r->text */
    r->no_memory |= copy == NULL;
    return copy;
}

static bool read_members(struct reader *r, json_t *object)
{
    if (take(r, '}'))
        return true;
    do {
        char *key = read_key(r, object);
        json_t *value = key && take(r, ':') ? read_value(r) : NULL;
        bool failed = value && json_object_set_new_nocheck(object, key, value) != 0;
        free(key);
        r->no_memory |= failed;
        if (!value || failed)
            return false;
    } while (take(r, ','));
    return take(r, '}');
}

static json_t *read_container(struct reader *r, json_t *container,
                              bool (*read)(struct reader *r, json_t *container))
{
    if (!made(r, container))
        return NULL;
    bool ok = r->depth < JSON_DEPTH_MAX;
    r->depth++;
    ok = ok && read(r, container);
    r->depth--;
    if (ok)
        return container;
    json_decref(container);
    return NULL;
}

static json_t *read_value(struct reader *r)
{
    if (take(r, '{'))
        return read_container(r, json_object(), read_members);
    if (take(r, '['))
        return read_container(r, json_array(), read_elements);
    if (take(r, '"'))
        return read_string(r);
    if (r->at < r->end && (*r->at == '-' || (*r->at >= '0' && *r->at <= '9')))
        return read_number(r);
    return read_word(r);
}

enum json_outcome json_read(struct view text, bool nul_allowed, json_t **value)
{
    /* The view of an empty text may be NULL. */
    const char *begin = text.len ? (const char *)text.p : "";
    struct reader r = {.at = begin, .end = begin + text.len, .nul_allowed = nul_allowed};
    *value = read_value(&r);
    skip_blanks(&r);
    if (*value && r.at != r.end) {
        json_decref(*value);
        *value = NULL;
    }
    buf_release(&r.text);
    return *value ? JSON_READ : r.no_memory ? JSON_NO_MEMORY : JSON_BROKEN;
}
