#include "report/write/text_cells.h"

#include <inttypes.h>

#include "base/format.h"

static void pad(struct buf *b, size_t from, size_t to)
{
    for (; from < to; from++)
        buf_puts(b, " ");
}

void cell(struct buf *b, const char *text, size_t width)
{
    buf_puts(b, "  ");
    pad(b, format_width(view_of(text)), width);
    buf_puts(b, text);
}

void cell_count(struct buf *b, uint64_t n, size_t width)
{
    char text[FORMAT_SIZE];
    cell(b, format_count(text, n), width);
}

void cell_bytes(struct buf *b, uint64_t n, size_t width)
{
    char text[FORMAT_SIZE];
    cell(b, format_bytes(text, n), width);
}

void cell_text(struct buf *b, struct view text, size_t width)
{
    size_t start = b->len;
    format_terminal(b, text);
    if (b->failed)
        return;
    size_t got = format_width((struct view){(const char *)b->data + start, b->len - start});
    if (got > width) {
        buf_puts(b, "\n");
        got = 0;
    }
    pad(b, got, width);
}

void cell_fitted(struct buf *b, struct terminal_form form, struct view text, size_t width)
{
    if (form.width == 0)
        cell_text(b, text, width);
    else
        pad(b, put_shortened(b, text, width), width);
}

void cell_share(struct buf *b, struct terminal_form form, enum tint which, uint64_t part,
                uint64_t whole)
{
    char text[FORMAT_SIZE];
    tint(b, form, which);
    cell(b, format_percent(text, part, whole), SHARE_WIDTH);
    tint_end(b, form, which);
}

size_t text_width(struct view text, bool *failed)
{
    struct buf b = {0};
    format_terminal(&b, text);
    *failed |= b.failed;
    size_t width = format_width((struct view){(const char *)b.data, b.len});
    buf_release(&b);
    return width;
}

void put_site(struct buf *out, const struct frame_view *f, bool no_callstack)
{
    if (no_callstack)
        buf_puts(out, "[no call stack]");
    else
        frame_short_name(out, f);
    frame_source(out, f);
}

void put_stack_line(struct buf *out, const struct frame_view *f, unsigned indent)
{
    struct buf name = {0};
    frame_name(&name, f);
    pad(out, f->is_inline ? 5 : 0, indent);
    buf_puts(out, f->is_inline ? "inl. " : "");
    format_terminal(out, (struct view){(const char *)name.data, name.len});
    if (f->offset)
        buf_printf(out, " + %" PRIu64, f->offset);
    if (f->file.len) {
        buf_puts(out, "  ");
        format_terminal(out, f->file);
        if (f->line)
            buf_printf(out, ":%" PRIu32, f->line);
    }
    if (f->function.len && f->image.len) {
        buf_puts(out, "  [");
        format_terminal(out, view_base_name(f->image));
        buf_puts(out, "]");
    }
    buf_puts(out, "\n");
    buf_end(&name, &out->failed);
}
