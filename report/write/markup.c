#include "report/write/markup.h"

#include "base/format.h"

void markup_text(struct buf *out, struct view text)
{
    struct buf plain = {0};
    format_terminal(&plain, text);
    for (size_t i = 0; i < plain.len; i++) {
        char c = (char)plain.data[i];
        /* Every Markdown dialect supports numeric character references. */
        if (c == '\n')
            buf_puts(out, " ");
        else if (c > 0 && c < 0x7f && !(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'z') &&
                 !(c >= 'A' && c <= 'Z') && c != ' ' && c != '.' && c != '/' && c != ',')
            buf_printf(out, "&#%d;", c);
        else
            buf_u8(out, (uint8_t)c);
    }
    out->failed |= plain.failed;
    buf_release(&plain);
}

void markup_code(struct buf *out, struct view text)
{
    buf_puts(out, "<code>");
    markup_text(out, text);
    buf_puts(out, "</code>");
}

/* U+FFFE and U+FFFF, which XML does not allow. */
static bool is_noncharacter(const uint8_t *p, size_t left)
{
    return left >= 3 && p[0] == 0xef && p[1] == 0xbf && (p[2] == 0xbe || p[2] == 0xbf);
}

void markup_xml(struct buf *out, struct view text)
{
    struct buf plain = {0};
    format_terminal(&plain, text);
    for (size_t i = 0; i < plain.len; i++) {
        switch (plain.data[i]) {
        case '<':
            buf_puts(out, "&lt;");
            break;
        case '>':
            buf_puts(out, "&gt;");
            break;
        case '&':
            buf_puts(out, "&amp;");
            break;
        case '"':
            buf_puts(out, "&quot;");
            break;
        default:
            if (is_noncharacter(plain.data + i, plain.len - i)) {
                buf_puts(out, "\xef\xbf\xbd");
                i += 2;
            } else {
                buf_u8(out, plain.data[i]);
            }
        }
    }
    out->failed |= plain.failed;
    buf_release(&plain);
}
