#include "report/dump_format.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/digits.h"
#include "base/format.h"

/* ---- numbers: formatted by hand for speed, since a dump is mostly numbers */

static void put_view(struct buf *out, struct view v)
{
    buf_put(out, v.p, v.len);
}

/* 17 digits distinguish all doubles except the bit patterns of NaN. */
static void put_real(struct buf *out, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (isnan(value))
        buf_printf(out, "nan:0x%" PRIx64, bits);
    else if (isinf(value))
        buf_puts(out, value < 0 ? "-inf" : "inf");
    else if (value == (double)(int64_t)fmin(fmax(value, -1e15), 1e15) && (value != 0 || bits == 0))
        digits_put_i64(out, (int64_t)value);
    else
        buf_printf(out, "%.17g", value);
}

/*
 * Fields that both formats write alike except for their names. In JSON, addresses, infinities and
 * NaN are QUOTED.
 */
#define NUMBER_FIELDS(FORM, QUOTED)                                                                \
    static void FORM##_number(struct buf *out, struct view name, uint64_t value)                   \
    {                                                                                              \
        FORM##_name(out, name);                                                                    \
        digits_put_u64(out, value);                                                                \
    }                                                                                              \
    static void FORM##_integer(struct buf *out, struct view name, int64_t value)                   \
    {                                                                                              \
        FORM##_name(out, name);                                                                    \
        digits_put_i64(out, value);                                                                \
    }                                                                                              \
    static void FORM##_address(struct buf *out, struct view name, uint64_t value)                  \
    {                                                                                              \
        FORM##_name(out, name);                                                                    \
        buf_puts(out, (QUOTED));                                                                   \
        digits_put_address(out, value);                                                            \
        buf_puts(out, (QUOTED));                                                                   \
    }                                                                                              \
    static void FORM##_real(struct buf *out, struct view name, double value)                       \
    {                                                                                              \
        FORM##_name(out, name);                                                                    \
        buf_puts(out, isfinite(value) ? "" : (QUOTED));                                            \
        put_real(out, value);                                                                      \
        buf_puts(out, isfinite(value) ? "" : (QUOTED));                                            \
    }

/* ---- text */

static void text_begin(struct buf *out, struct view section)
{
    put_view(out, section);
}

static void text_name(struct buf *out, struct view name)
{
    buf_u8(out, ' ');
    put_view(out, name);
    buf_u8(out, '=');
}

NUMBER_FIELDS(text, "")

/* Escaped for terminals; also escapes the escape character and the closing quote. */
static void text_text(struct buf *out, struct view name, struct view text)
{
    text_name(out, name);
    buf_u8(out, '"');
    while (text.len > 0) {
        size_t plain = 0;
        while (plain < text.len && text.p[plain] != '"' && text.p[plain] != '\\')
            plain++;
        format_terminal(out, (struct view){text.p, plain});
        if (plain < text.len) {
            buf_u8(out, '\\');
            buf_u8(out, (uint8_t)text.p[plain++]);
        }
        text.p += plain;
        text.len -= plain;
    }
    buf_u8(out, '"');
}

static void text_word(struct buf *out, struct view name, struct view word)
{
    text_name(out, name);
    put_view(out, word);
}

static void text_list_word(struct buf *out, struct view word, bool first)
{
    if (!first)
        buf_u8(out, ',');
    put_view(out, word);
}

static void text_list_end(struct buf *out)
{
    (void)out;
}

static void text_end(struct buf *out)
{
    buf_u8(out, '\n');
}

const struct dump_format dump_format_text = {
    .begin = text_begin,
    .number = text_number,
    .integer = text_integer,
    .address = text_address,
    .real = text_real,
    .text = text_text,
    .word = text_word,
    .list_begin = text_name,
    .list_word = text_list_word,
    .list_end = text_list_end,
    .end = text_end,
};

/* ---- JSON */

static void json_quoted(struct buf *out, struct view word)
{
    buf_u8(out, '"');
    put_view(out, word);
    buf_u8(out, '"');
}

static void json_begin(struct buf *out, struct view section)
{
    buf_puts(out, "{\"section\":");
    json_quoted(out, section);
}

static void json_name(struct buf *out, struct view name)
{
    buf_u8(out, ',');
    json_quoted(out, name);
    buf_u8(out, ':');
}

NUMBER_FIELDS(json, "\"")

/* Whether the text is well-formed UTF-8, so that nothing must be replaced. */
static bool is_utf8(struct view text)
{
    struct buf copy = {0};
    format_utf8(&copy, text);
    bool same = view_equal(text, (struct view){(const char *)copy.data, copy.len});
    buf_release(&copy);
    return same;
}

/*
 * Escapes control characters, including the two-byte U+0080 to U+009F, which terminals interpret.
 */
static void json_escaped(struct buf *out, struct view text)
{
    buf_u8(out, '"');
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = (uint8_t)text.p[i];
        bool c1 = c == 0xc2 && (uint8_t)text.p[i + 1] < 0xa0;
        if (c == '"' || c == '\\')
            buf_u8(out, '\\');
        if (c1)
            buf_printf(out, "\\u%04x", (uint8_t)text.p[++i]);
        else if (c < 0x20 || c == 0x7f)
            buf_printf(out, "\\u%04x", c);
        else
            buf_u8(out, c);
    }
    buf_u8(out, '"');
}

static bool is_ascii(struct view text)
{
    for (size_t i = 0; i < text.len; i++) {
        if ((uint8_t)text.p[i] >= 0x80)
            return false;
    }
    return true;
}

/* Invalid UTF-8 has no exact JSON string: {"bytes": hexadecimal}. */
static void json_text(struct buf *out, struct view name, struct view text)
{
    json_name(out, name);
    if (is_ascii(text) || is_utf8(text)) {
        json_escaped(out, text);
        return;
    }
    buf_puts(out, "{\"bytes\":\"");
    for (size_t i = 0; i < text.len; i++)
        buf_printf(out, "%02x", (uint8_t)text.p[i]);
    buf_puts(out, "\"}");
}

static void json_word(struct buf *out, struct view name, struct view word)
{
    json_name(out, name);
    json_quoted(out, word);
}

static void json_list_begin(struct buf *out, struct view name)
{
    json_name(out, name);
    buf_u8(out, '[');
}

static void json_list_word(struct buf *out, struct view word, bool first)
{
    if (!first)
        buf_u8(out, ',');
    json_quoted(out, word);
}

static void json_list_end(struct buf *out)
{
    buf_u8(out, ']');
}

static void json_end(struct buf *out)
{
    buf_puts(out, "}\n");
}

const struct dump_format dump_format_jsonl = {
    .begin = json_begin,
    .number = json_number,
    .integer = json_integer,
    .address = json_address,
    .real = json_real,
    .text = json_text,
    .word = json_word,
    .list_begin = json_list_begin,
    .list_word = json_list_word,
    .list_end = json_list_end,
    .end = json_end,
};
