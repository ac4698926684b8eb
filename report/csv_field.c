#include "report/csv_field.h"

#include <stdbool.h>

#include "base/format.h"

static bool is_line_end(char c)
{
    return c == '\n' || c == '\r';
}

void csv_field(struct buf *b, struct view text)
{
    bool quote = false;
    for (size_t i = 0; i < text.len && !quote; i++)
        quote = text.p[i] == ',' || text.p[i] == '"' || is_line_end(text.p[i]);
    if (!quote) {
        format_terminal(b, text);
        return;
    }
    buf_puts(b, "\"");
    while (text.len) {
        size_t n = 0;
        while (n < text.len && text.p[n] != '"' && !is_line_end(text.p[n]))
            n++;
        format_terminal(b, (struct view){text.p, n});
        if (n < text.len)
            buf_put(b, text.p[n] == '"' ? "\"\"" : text.p + n, text.p[n] == '"' ? 2 : 1);
        n += n < text.len;
        text.p += n;
        text.len -= n;
    }
    buf_puts(b, "\"");
}
