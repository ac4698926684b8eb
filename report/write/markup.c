#include "report/write/markup.h"

#include <ctype.h>
#include <string.h>

#include "base/format.h"

static bool is_word(const struct buf *text, size_t i)
{
    return i < text->len && isalnum(text->data[i]);
}

/* Whether the colon at `i` is the end of ":name:", which may be an emoji, or of a link's scheme. */
static bool is_colon_markup(const struct buf *text, size_t i, bool code)
{
    size_t begin = i;
    if (i + 1 < text->len && text->data[i + 1] == '/')
        return true;
    while (begin > 0 && (is_word(text, begin - 1) || strchr("_+-", text->data[begin - 1])))
        begin--;
    return !code && begin > 0 && begin < i && text->data[begin - 1] == ':';
}

/*
 * Whether the character at `i` can act as markup in CommonMark or in the dialects of GitHub and
 * GitLab. At the beginning any sign may, since that can be the beginning of a line.
 */
static bool is_markup(const struct buf *text, size_t i, bool code)
{
    char c = (char)text->data[i];
    if (c <= 0 || c >= 0x7f || is_word(text, i) || c == ' ')
        return false;
    if (i == 0)
        return !strchr("./,", c);
    if (c == ':')
        return is_colon_markup(text, i, code);
    if (c == '_') /* within a word it is no emphasis */
        return !is_word(text, i - 1) || !is_word(text, i + 1);
    if (c == '%') /* "%name" is a milestone */
        return is_word(text, i + 1) || (i + 1 < text->len && text->data[i + 1] == '"');
    return !strchr("./,;()-+='\"?{}", c);
}

/* As for a terminal, on one line. */
static struct buf line_of(struct view text)
{
    struct buf line = {0};
    format_terminal(&line, text);
    for (size_t i = 0; i < line.len; i++)
        line.data[i] = line.data[i] == '\n' ? ' ' : line.data[i];
    return line;
}

static void put_escaped(struct buf *out, const struct buf *line, bool code)
{
    for (size_t i = 0; i < line->len; i++) {
        /* Every Markdown dialect supports numeric character references. */
        if (is_markup(line, i, code))
            buf_printf(out, "&#%d;", line->data[i]);
        else
            buf_u8(out, line->data[i]);
    }
    out->failed |= line->failed;
}

void markup_text(struct buf *out, struct view text)
{
    struct buf line = line_of(text);
    put_escaped(out, &line, false);
    buf_release(&line);
}

/* Whether backticks show it as it is. In a table a vertical bar ends the cell even there. */
static bool is_span(const struct buf *line)
{
    return line->len && line->data[0] != ' ' && line->data[line->len - 1] != ' ' &&
           !memchr(line->data, '`', line->len) && !memchr(line->data, '|', line->len);
}

void markup_code(struct buf *out, struct view text)
{
    struct buf line = line_of(text);
    bool span = is_span(&line);
    buf_puts(out, span ? "`" : "<code>");
    if (span)
        buf_put(out, line.data, line.len);
    else
        put_escaped(out, &line, true);
    buf_puts(out, span ? "`" : "</code>");
    buf_end(&line, &out->failed);
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
    buf_end(&plain, &out->failed);
}
