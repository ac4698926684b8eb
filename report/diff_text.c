/* Differences between two traces in the formats for people: text, Markdown, JUnit XML. */

#include "report/diff_text.h"

#include <stdio.h>

#include "analysis/diff/diff_answer.h"
#include "base/format.h"
#include "report/junit.h"
#include "report/write/markup.h"
#include "report/write/text_cells.h"

static const char *const kind_titles[] = {
    [DIFF_NEW] = "New", [DIFF_GROWN] = "Grown", [DIFF_SHRUNK] = "Shrunk", [DIFF_GONE] = "Gone"};

static const char *const things[] = {
    [DIFF_SITE] = "site", [DIFF_CALLSTACK] = "call stack", [DIFF_TYPE] = "type"};

/* Follows a number of rows. */
#define UNSURE                                                                                     \
    "with places that have no name, in images of another or an unknown build: matched by order, "  \
    "size and number of the blocks, which may be wrong; `tidemark symbols` gives names"

struct change_words {
    char before[FORMAT_SIZE], after[FORMAT_SIZE], change[2 * FORMAT_SIZE];
};

static void put_change(struct change_words *out, uint64_t base, uint64_t now, bool is_bytes)
{
    const char *(*format)(char out[FORMAT_SIZE], uint64_t n) =
        is_bytes ? format_bytes : format_count;
    format(out->before, base);
    format(out->after, now);
    diff_change(out->change, sizeof out->change, base, now, is_bytes);
}

static void pool_change(struct change_words *out, const struct diff_pool *p, size_t figure)
{
    put_change(out, diff_pool_figure(&p->figures[0], figure),
               diff_pool_figure(&p->figures[1], figure), diff_pool_figures[figure].is_bytes);
}

/* `none` stands for the figure of a side that lacks the row. */
static void row_change(struct change_words *out, const struct diff_writer *w,
                       const struct diff_row *r, const char *none)
{
    enum diff_metric m = w->d->options.metric;
    put_change(out, diff_figure(&r->side[0], m), diff_figure(&r->side[1], m), m != DIFF_COUNT);
    if (!r->side[0].there)
        snprintf(out->before, sizeof out->before, "%s", none);
    if (!r->side[1].there)
        snprintf(out->after, sizeof out->after, "%s", none);
}

/* ---- text */

static void text_pool(struct diff_writer *w, const struct diff_pool *p)
{
    struct buf *b = &w->doc.buf;
    buf_puts(b, "pool ");
    format_terminal(b, p->name);
    if (!p->there[0] || !p->there[1])
        buf_puts(b, p->there[1] ? " (new)" : " (gone)");
    buf_puts(b, "\n");
    for (size_t i = 0; i < DIFF_POOL_FIGURES; i++) {
        struct change_words words;
        pool_change(&words, p, i);
        buf_printf(b, "  %-24s", diff_pool_figures[i].title);
        cell(b, words.before, 12);
        cell(b, words.after, 12);
        buf_printf(b, "  %s\n", words.change);
    }
}

static void text_row(struct diff_writer *w, const struct diff_row *r)
{
    struct buf *b = &w->doc.buf;
    struct change_words words;
    struct buf name = {0};
    row_change(&words, w, r, "-");
    cell(b, words.change, 24);
    cell(b, words.before, 11);
    cell(b, words.after, 11);
    buf_puts(b, "  ");
    diff_row_name(&name, r, w->d->options.by);
    format_terminal(b, buf_view(&name));
    if (r->type.len && w->d->options.by != DIFF_TYPE) {
        buf_clear(&name);
        diff_row_type(&name, r);
        buf_puts(b, "  type ");
        format_terminal(b, buf_view(&name));
    }
    if (w->d->pools.len > 1) {
        buf_puts(b, "  pool ");
        format_terminal(b, r->pool);
    }
    buf_puts(b, "\n");
    w->doc.failed |= name.failed;
    buf_release(&name);
    int newest = r->side[1].there ? 1 : 0;
    struct frame_walk walk = frame_walk_start(w->d->trace[newest], r->side[newest].callstack);
    struct frame_view f;
    while (w->options->stack_traces && frame_walk_next(&walk, &f))
        put_stack_line(b, &f, 11);
    document_flush(&w->doc);
}

static void text_checks(struct diff_writer *w)
{
    for (size_t i = 0; i < w->options->check_count; i++) {
        const struct summary_check *c = &w->options->checks[i];
        buf_printf(&w->doc.buf, "%s%s %s: ", i ? "" : "\n", c->holds ? "ok" : "FAILED", c->name);
        format_terminal(&w->doc.buf, view_of(c->detail));
        buf_puts(&w->doc.buf, "\n");
    }
}

/* Rows that are equal in one metric may differ in others: a leak changes no allocation. */
static void text_same(struct diff_writer *w)
{
    struct buf *b = &w->doc.buf;
    char text[FORMAT_SIZE];
    bool stays = false;
    if (w->d->same == 0)
        return;
    for (size_t i = 0; i < w->d->pools.len; i++) {
        const struct pool_figures *f = w->d->pools.at[i].figures;
        stays |= f[0].live_bytes != f[1].live_bytes;
    }
    buf_printf(b, "\n%s did not change in %s%s\n", format_counted(text, w->d->same, "row"),
               diff_metric_name(w->d->options.metric),
               stays && w->d->options.metric != DIFF_LIVE ? "; --metric live compares what is live"
                                                          : "");
}

void diff_text_write(struct diff_writer *w)
{
    struct buf *b = &w->doc.buf;
    char text[FORMAT_SIZE];
    diff_answer(b, w->d);
    buf_puts(b, w->d->pools.len ? "\n\n" : "no memory data in either trace\n");
    for (size_t i = 0; i < w->d->pools.len; i++)
        text_pool(w, &w->d->pools.at[i]);
    for (int k = 0; k < DIFF_SAME; k++) {
        struct diff_range range = diff_rows_of(w, (enum diff_kind)k);
        if (range.count == 0)
            continue;
        buf_printf(b, "\n%s: %s, by %s\n", kind_titles[k],
                   format_counted(text, range.count, things[w->d->options.by]),
                   diff_metric_name(w->d->options.metric));
        cell(b, "Change", 24);
        cell(b, "Before", 11);
        cell(b, "After", 11);
        buf_puts(b, w->d->options.by == DIFF_TYPE ? "  Type\n" : "  Source location\n");
        for (size_t i = 0; i < range.shown; i++)
            text_row(w, &w->d->rows.at[range.first + i]);
        if (range.shown < range.count)
            buf_printf(b, "and %s more (--limit 0 shows all)\n",
                       format_count(text, range.count - range.shown));
    }
    text_same(w);
    if (w->d->unsure)
        buf_printf(b, "\n%s " UNSURE "\n", format_counted(text, w->d->unsure, "row"));
    buf_puts(b, "\n" DIFF_NO_NOISE "\n");
    text_checks(w);
}

/* ---- Markdown */

static void markdown_pool(struct diff_writer *w, const struct diff_pool *p)
{
    struct buf *b = &w->doc.buf;
    for (size_t i = 0; i < DIFF_POOL_FIGURES; i++) {
        struct change_words words;
        pool_change(&words, p, i);
        buf_puts(b, "| ");
        if (i == 0)
            markup_code(b, p->name);
        buf_printf(b, " | %s | %s | %s | %s |\n", diff_pool_figures[i].title, words.before,
                   words.after, words.change);
    }
}

static void markdown_row(struct diff_writer *w, const struct diff_row *r)
{
    struct buf *b = &w->doc.buf;
    struct change_words words;
    struct buf name = {0};
    row_change(&words, w, r, "");
    diff_row_name(&name, r, w->d->options.by);
    buf_printf(b, "| %s | ", kind_titles[r->kind]);
    markup_code(b, buf_view(&name));
    buf_printf(b, " | %s | %s | %s |", words.before, words.after, words.change);
    if (w->types) {
        buf_clear(&name);
        diff_row_type(&name, r);
        buf_puts(b, " ");
        if (name.len)
            markup_code(b, buf_view(&name));
        buf_puts(b, " |");
    }
    buf_puts(b, "\n");
    w->doc.failed |= name.failed;
    buf_release(&name);
    document_flush(&w->doc);
}

void diff_markdown_write(struct diff_writer *w)
{
    struct buf *b = &w->doc.buf;
    char text[FORMAT_SIZE];
    uint64_t cut = 0;
    bool any = false;
    w->types = diff_has_types(w);
    buf_puts(b, MARKUP_MARKER "### Memory\n\n");
    for (size_t i = 0; i < w->options->check_count; i++) {
        const struct summary_check *c = &w->options->checks[i];
        buf_puts(b, c->holds ? "- ✅ " : "- ❌ ");
        markup_code(b, view_of(c->name));
        buf_puts(b, ": ");
        markup_code(b, view_of(c->detail));
        buf_puts(b, i + 1 == w->options->check_count ? "\n\n" : "\n");
    }
    buf_puts(b, "| Pool | | Before | After | Change |\n| --- | --- | ---: | ---: | ---: |\n");
    for (size_t i = 0; i < w->d->pools.len; i++)
        markdown_pool(w, &w->d->pools.at[i]);
    for (int k = 0; k < DIFF_SAME; k++) {
        struct diff_range range = diff_rows_of(w, (enum diff_kind)k);
        cut += range.count - range.shown;
        if (range.shown && !any)
            buf_printf(b,
                       "\n| | By %s | Before | After | Change |%s\n"
                       "| --- | --- | ---: | ---: | ---: |%s\n",
                       diff_metric_name(w->d->options.metric), w->types ? " Type |" : "",
                       w->types ? " --- |" : "");
        any |= range.shown != 0;
        for (size_t i = 0; i < range.shown; i++)
            markdown_row(w, &w->d->rows.at[range.first + i]);
    }
    if (cut)
        buf_printf(b, "\n%s not shown.\n", format_counted(text, cut, "more row"));
    if (w->d->unsure)
        buf_printf(b, "\n%s " UNSURE ".\n", format_counted(text, w->d->unsure, "row"));
    buf_puts(b, "\n" DIFF_NO_NOISE ".\n");
}

/* ---- JUnit XML */

void diff_junit_write(struct diff_writer *w)
{
    junit_write(&w->doc.buf, "tidemark diff", w->options->checks, w->options->check_count, false);
}
