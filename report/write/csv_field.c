#include "report/write/csv_field.h"

#include <inttypes.h>

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

void csv_site(struct buf *b, const struct frame_view *f, bool no_callstack)
{
    csv_field(b, no_callstack ? view_of("[no call stack]") : f->function);
    buf_puts(b, ",");
    csv_field(b, f->file);
    buf_puts(b, ",");
    if (f->line)
        buf_printf(b, "%" PRIu32, f->line);
    buf_puts(b, ",");
    csv_field(b, f->image);
}
