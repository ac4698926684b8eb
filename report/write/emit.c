#include "report/write/emit.h"

#include <stdlib.h>
#include <string.h>

#include "base/digits.h"
#include "base/format.h"

int emit_flush(struct emit *w, struct err *e)
{
    size_t n = w->buf.len;
    if (w->buf.failed)
        return err_no_memory(e, w->what);
    if (n > 0 && fwrite(w->buf.data, 1, n, w->out) < n)
        return err_errno(e, ERR_OUTPUT, "cannot write %s", w->what);
    w->written += n;
    buf_clear(&w->buf);
    return 0;
}

int emit_finish(struct emit *w, struct err *e)
{
    if (emit_flush(w, e) != 0)
        return -1;
    return fflush(w->out) == 0 ? 0 : err_errno(e, ERR_OUTPUT, "cannot write %s", w->what);
}

int emit_all(struct buf *text, bool ok, FILE *out, const char *what, struct err *e)
{
    ok = ok && !text->failed;
    if (ok)
        (void)fwrite(text->data, 1, text->len, out); /* ferror reports it */
    buf_release(text);
    if (!ok)
        return err_no_memory(e, what);
    return fflush(out) != 0 || ferror(out) ? err_errno(e, ERR_OUTPUT, "cannot write %s", what) : 0;
}

void emit_release(struct emit *w)
{
    buf_release(&w->buf);
}

void emit_number(struct emit *w, uint64_t n)
{
    digits_put_u64(&w->buf, n);
}

void emit_integer(struct emit *w, int64_t n)
{
    digits_put_i64(&w->buf, n);
}

void emit_address(struct emit *w, uint64_t address)
{
    digits_put_address(&w->buf, address);
}

void emit_real(struct emit *w, double x)
{
    char text[40];
    if (x > -1e15 && x < 1e15 && x == (double)(int64_t)x) {
        emit_integer(w, (int64_t)x);
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, x);
        if (strtod(text, NULL) == x)
            break;
    }
    buf_puts(&w->buf, text);
}

/* Whether a byte needs no escape in a JSON string. */
static bool is_plain(uint8_t c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

/*
 * Whether `p` is one of U+0080 to U+009F, which terminals interpret; the text is well-formed UTF-8.
 */
static bool is_c1(const uint8_t *p)
{
    return p[0] == 0xc2 && p[1] < 0xa0;
}

static void put_escaped(struct buf *b, uint8_t c)
{
    switch (c) {
    case '"':
    case '\\':
        buf_put(b, (const char[]){'\\', (char)c}, 2);
        break;
    case '\n':
        buf_puts(b, "\\n");
        break;
    case '\t':
        buf_puts(b, "\\t");
        break;
    case '\r':
        buf_puts(b, "\\r");
        break;
    default:
        buf_printf(b, "\\u%04x", c);
    }
}

void emit_json(struct emit *w, struct view text)
{
    struct buf *b = &w->buf;
    size_t plain = 0;
    buf_put(b, "\"", 1);
    while (plain < text.len && is_plain((uint8_t)text.p[plain]))
        plain++;
    buf_put(b, text.p, plain);
    if (plain < text.len) {
        struct buf utf8 = {0};
        format_utf8(&utf8, (struct view){text.p + plain, text.len - plain});
        for (size_t i = 0; i < utf8.len; i++) {
            uint8_t c = utf8.data[i];
            if (is_c1(utf8.data + i))
                put_escaped(b, utf8.data[++i]);
            else if (is_plain(c) || c >= 0x80)
                buf_put(b, &c, 1);
            else
                put_escaped(b, c);
        }
        buf_end(&utf8, &b->failed);
    }
    buf_put(b, "\"", 1);
}
