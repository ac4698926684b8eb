#include "report/markdown.h"

#include <inttypes.h>

#include "base/format.h"
#include "report/leaks_report.h"
#include "report/write/document.h"
#include "report/write/markdown_table.h"
#include "report/write/markup.h"

struct writer {
    const struct summary *s;
    const struct markdown_options *options;
    struct document doc;
    bool types;    /* rows have a type column */
    bool resident; /* rows have resident bytes */
};

static void put_name(struct writer *w, const struct buf *name)
{
    markup_code(&w->doc.buf, buf_view(name));
    w->doc.failed |= name->failed;
}

/* ---- the visible part */

static void head(struct writer *w)
{
    struct buf *b = &w->doc.buf;
    markdown_title(&w->doc, "Memory of", w->s->trace, &w->s->selection.options);
    markup_text(b, (struct view){(const char *)w->s->verdict.data, w->s->verdict.len});
    buf_puts(b, "\n\n");
    if (w->s->answer.len) {
        markup_text(b, (struct view){(const char *)w->s->answer.data, w->s->answer.len});
        buf_puts(b, "\n\n");
    }
}

/* Lists budgets, and failed checks without an expression as warnings. */
static void checks(struct writer *w)
{
    struct buf *b = &w->doc.buf;
    bool any = false;
    for (size_t i = 0; i < w->s->checks.len; i++) {
        const struct summary_check *c = &w->s->checks.at[i];
        if (!c->expression && c->holds)
            continue;
        any = true;
        if (c->expression)
            buf_printf(b, "- %s ", markdown_sign(c));
        else
            buf_puts(b, "- ⚠️ ");
        markup_code(b, view_of(c->detail));
        buf_puts(b, "\n");
    }
    buf_puts(b, any ? "\n" : "");
}

static void pools(struct writer *w)
{
    struct buf *b = &w->doc.buf;
    if (w->s->pools.len == 0)
        return;
    buf_puts(b, "| Pool | Peak | Live at the end | Blocks live | All allocations | Count "
                "| Temporary |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n");
    for (size_t i = 0; i < w->s->pools.len; i++) {
        const struct pool_figures *f = &w->s->pools.at[i].figures;
        char text[FORMAT_SIZE];
        buf_puts(b, "| ");
        markup_code(b, w->s->pools.at[i].name);
        buf_printf(b, " | %s", format_bytes(text, f->peak_bytes));
        buf_printf(b, " | %s", format_bytes(text, f->live_bytes));
        buf_printf(b, " | %s", format_count(text, f->live));
        buf_printf(b, " | %s", format_bytes(text, f->total_bytes));
        buf_printf(b, " | %s", format_count(text, f->allocations));
        buf_printf(b, " | %s |\n", format_count(text, f->temporary));
        document_flush(&w->doc);
    }
}

static void faults(struct writer *w)
{
    char text[FORMAT_SIZE];
    uint64_t sure;
    uint64_t n = summary_count_faults(w->s, &sure);
    if (n)
        buf_printf(&w->doc.buf, "\n⚠️ %s%s, at %s.\n", sure < n ? "Up to " : "",
                   format_counted(text, n, "memory fault"),
                   format_counted((char[FORMAT_SIZE]){0}, w->s->faults.len, "call stack"));
}

/* ---- the collapsible part */

static void details(struct writer *w, const char *title)
{
    buf_printf(&w->doc.buf, "\n<details><summary>%s</summary>\n\n", title);
}

static void details_end(struct writer *w)
{
    buf_puts(&w->doc.buf, "\n</details>\n");
}

static void row(struct writer *w, const struct summary_row *r)
{
    struct buf *b = &w->doc.buf;
    const struct counter *c = &r->figures;
    struct buf name = {0};
    char text[FORMAT_SIZE];
    summary_row_place(&name, r);
    buf_puts(b, "| ");
    put_name(w, &name);
    buf_release(&name);
    buf_printf(b, " | %s", format_bytes(text, c->bytes));
    buf_printf(b, " | %s", format_count(text, c->count));
    buf_printf(b, " | %s", format_bytes(text, c->peak_bytes));
    buf_printf(b, " | %s", format_bytes(text, c->live_bytes));
    if (w->resident)
        buf_printf(b, " | %s", format_bytes(text, r->resident_bytes));
    buf_printf(b, " | %s |", format_count(text, c->temporary));
    if (w->types) {
        struct buf type = {0};
        summary_row_type(&type, w->s, r);
        buf_puts(b, " ");
        if (type.len)
            put_name(w, &type);
        buf_puts(b, " |");
        buf_end(&type, &w->doc.failed);
    }
    buf_puts(b, "\n");
    document_flush(&w->doc);
}

/* Whether to show a type column: a row has a type, and rows are not grouped by type. */
static bool has_types(const struct row_list *list, enum grouping by)
{
    for (size_t i = 0; i < list->len && by <= GROUP_POOL; i++) {
        if (list->at[i].type.len || list->at[i].type_count > 1)
            return true;
    }
    return false;
}

static void rows(struct writer *w)
{
    const char *what = w->s->by == GROUP_CALLSTACK ? "call stack" : grouping_name(w->s->by);
    const struct row_list *list = w->s->by == GROUP_SITE ? &w->s->sites : &w->s->groups;
    char text[FORMAT_SIZE];
    char title[2 * FORMAT_SIZE];
    if (list->len == 0)
        return;
    uint64_t all = list->len + list->cut + list->filtered;
    int at = 0;
    if (list->len < all)
        at = snprintf(title, sizeof title, "%zu of ", list->len);
    snprintf(title + at, sizeof title - (size_t)at, "%s, by %s", format_counted(text, all, what),
             sort_key_name(w->options->sort));
    details(w, title);
    w->types = has_types(list, w->s->by);
    w->resident = w->s->has_resident && grouping_has_resident(w->s->by);
    buf_puts(&w->doc.buf, "| Where | All allocations | Count | Peak | Live at the end |");
    buf_puts(&w->doc.buf, w->resident ? " Resident |" : "");
    buf_puts(&w->doc.buf, w->types ? " Temporary | Type |" : " Temporary |");
    buf_puts(&w->doc.buf, "\n| --- | ---: | ---: | ---: | ---: | ---: |");
    buf_puts(&w->doc.buf, w->resident ? " ---: |" : "");
    buf_puts(&w->doc.buf, w->types ? " --- |\n" : "\n");
    for (size_t i = 0; i < list->len; i++)
        row(w, &list->at[i]);
    details_end(w);
}

static void leaks(struct writer *w, const struct leaks *l, const struct selection *s)
{
    char bytes[FORMAT_SIZE];
    char count[FORMAT_SIZE];
    char growing[FORMAT_SIZE];
    char title[4 * FORMAT_SIZE];
    uint64_t blocks;
    uint64_t size;
    leaks_total(l, &blocks, &size);
    if (blocks == 0) {
        buf_puts(&w->doc.buf, "\nEvery block was freed.\n");
        return;
    }
    snprintf(title, sizeof title, "Never freed: %s, %s; growing: %s",
             format_counted(count, blocks, "block"), format_bytes(bytes, size),
             format_bytes(growing, l->bytes[LEAK_GROWING]));
    details(w, title);
    leaks_short_table(&w->doc, l, s, rows_shown(l->rows.len, w->options->limit));
    details_end(w);
}

int markdown_write(const struct summary *summary, const struct leaks *l, const struct selection *s,
                   const struct markdown_options *options, FILE *out, struct err *e)
{
    struct writer w = {.s = summary, .options = options, .doc = document_begin(out)};
    head(&w);
    checks(&w);
    pools(&w);
    faults(&w);
    rows(&w);
    if (l)
        leaks(&w, l, s);
    return document_end(&w.doc, e);
}
