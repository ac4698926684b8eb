#include "report/write/markdown_table.h"

#include <string.h>

#include "analysis/figures/summary.h"
#include "base/format.h"
#include "report/write/markup.h"
#include "report/write/text_cells.h"

static void put_made(struct document *d, struct buf *made, void (*put)(struct buf *, struct view))
{
    put(&d->buf, buf_view(made));
    d->failed |= made->failed;
    buf_release(made);
}

const char *markdown_sign(const struct summary_check *c)
{
    return !c->holds ? "❌" : c->unmatched ? "⚠️" : "✅";
}

void markdown_title(struct document *d, const char *title, const struct trace *t,
                    const struct selection_options *only)
{
    struct view program = strings_get(&t->strings, t->facts.program);
    struct buf words = {0};
    buf_printf(&d->buf, MARKUP_MARKER "### %s ", title);
    if (program.len)
        markup_code(&d->buf, program);
    else
        buf_puts(&d->buf, "an unknown program");
    buf_puts(&d->buf, "\n\n");
    selection_describe(&words, only);
    if (words.len) {
        buf_puts(&d->buf, "Only allocations ");
        markup_text(&d->buf, buf_view(&words));
        buf_puts(&d->buf, ".\n\n");
    }
    buf_end(&words, &d->failed);
}

void markdown_columns(struct document *d, const char *titles)
{
    for (const char *p = titles; *p;) {
        size_t n = strcspn(p, "|");
        size_t mark = *p == '>';
        buf_printf(&d->buf, n > mark ? "| %.*s " : "|%.*s ", (int)(n - mark), p + mark);
        p += n + (p[n] == '|');
    }
    buf_puts(&d->buf, "|\n");
    for (const char *p = titles; *p;) {
        size_t n = strcspn(p, "|");
        buf_puts(&d->buf, *p == '>' ? "| ---: " : "| --- ");
        p += n + (p[n] == '|');
    }
    buf_puts(&d->buf, "|\n");
}

void markdown_text(struct document *d, const char *text)
{
    buf_printf(&d->buf, "| %s ", text);
}

void markdown_code(struct document *d, struct view text)
{
    buf_puts(&d->buf, "| ");
    if (text.len)
        markup_code(&d->buf, text);
    buf_puts(&d->buf, " ");
}

void markdown_count(struct document *d, uint64_t n)
{
    char text[FORMAT_SIZE];
    markdown_text(d, format_count(text, n));
}

void markdown_bytes(struct document *d, uint64_t n)
{
    char text[FORMAT_SIZE];
    markdown_text(d, format_bytes(text, n));
}

void markdown_row_end(struct document *d)
{
    buf_puts(&d->buf, "|\n");
    document_flush(d);
}

void markdown_site(struct document *d, const struct frame_view *f, bool no_callstack)
{
    struct buf name = {0};
    put_site(&name, f, no_callstack);
    buf_puts(&d->buf, "| ");
    put_made(d, &name, markup_code);
    buf_puts(&d->buf, " ");
}

void markdown_rest(struct document *d, size_t shown, size_t all, const char *what)
{
    char text[FORMAT_SIZE];
    if (shown < all)
        buf_printf(&d->buf, "\n%s not shown.\n", format_counted(text, all - shown, what));
}

void markdown_stack(struct document *d, const struct trace *t, const struct frame_view *site,
                    uint32_t callstack)
{
    struct frame_walk walk = frame_walk_start(t, callstack);
    struct frame_view f;
    struct buf name = {0};
    if (!frame_walk_next(&walk, &f))
        return;
    put_site(&name, site, false);
    buf_puts(&d->buf, "\n<details><summary><code>"); /* where backticks mean nothing */
    put_made(d, &name, markup_text);
    buf_puts(&d->buf, "</code></summary>\n\n");
    do {
        name = (struct buf){0};
        put_site(&name, &f, false);
        buf_puts(&d->buf, "- ");
        put_made(d, &name, markup_code);
        buf_puts(&d->buf, "\n");
    } while (frame_walk_next(&walk, &f));
    buf_puts(&d->buf, "\n</details>\n");
    document_flush(d);
}
