/*
 * One line per row, fields quoted as in RFC 4180, lines ended by LF. People look at CSV on
 * terminals, too: control characters of the trace are escaped, except for line ends in quotes.
 */

#include <inttypes.h>

#include "base/format.h"
#include "report/sink.h"

static bool is_line_end(char c)
{
    return c == '\n' || c == '\r';
}

static void field(struct report *r, struct view text)
{
    struct buf *b = &r->buf;
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

static void csv_rows_begin(struct report *r, const struct row_list *rows, bool groups)
{
    (void)rows;
    (void)groups;
    buf_puts(&r->buf, "pool,name,function,file,line,image,type,count,bytes,live_count,live_bytes,"
                      "peak_bytes,at_peak_bytes,temporary\n");
}

static void csv_row(struct report *r, const struct summary_row *row)
{
    struct buf *b = &r->buf;
    const struct counter *c = &row->figures;
    struct buf name = {0};
    summary_row_name(&name, row);
    r->failed |= name.failed;
    field(r, r->s->pools.at[row->pool].name);
    buf_puts(b, ",");
    field(r, (struct view){(const char *)name.data, name.len});
    buf_puts(b, ",");
    field(r, row->frame.function);
    buf_puts(b, ",");
    field(r, row->frame.file);
    buf_puts(b, ",");
    if (row->frame.line)
        buf_printf(b, "%" PRIu32, row->frame.line);
    buf_puts(b, ",");
    field(r, row->frame.image);
    buf_printf(b,
               ",,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64
               "\n",
               c->count, c->bytes, c->live_count, c->live_bytes, c->peak_bytes, c->at_peak_bytes,
               c->temporary);
    buf_release(&name);
}

const struct report_sink report_csv = {.rows_begin = csv_rows_begin, .row = csv_row};
