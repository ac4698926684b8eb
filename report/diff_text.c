/* Differences between two traces in the formats for people: text, Markdown, JUnit XML. */

#include "report/diff_text.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "analysis/diff/diff_answer.h"
#include "base/format.h"
#include "report/junit.h"
#include "report/write/markdown_table.h"
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

/* Columns of rows on a terminal, in the order in which they get room, and from left to right. */
enum { ROW_CHANGE, ROW_SHARE, ROW_BAR, ROW_BEFORE, ROW_AFTER, ROW_COLUMNS };

/* Rows of one kind on a terminal. */
struct fitted_rows {
    struct fitted_column columns[ROW_COLUMNS];
    unsigned name_width, pool_width; /* pool_width: 0 with one pool */
    uint64_t all;                    /* the sum of all changes of this sign */
    enum tint tint;
};

static uint64_t size_of_change(const struct diff_writer *w, const struct diff_row *r)
{
    uint64_t base = diff_figure(&r->side[0], w->d->options.metric);
    uint64_t now = diff_figure(&r->side[1], w->d->options.metric);
    return now > base ? now - base : base - now;
}

static bool is_growth(int kind)
{
    return kind == DIFF_NEW || kind == DIFF_GROWN;
}

/* The widest name of a pool. */
static unsigned pool_width(const struct diff_writer *w)
{
    size_t width = 4;
    for (size_t i = 0; i < w->d->pools.len; i++) {
        size_t n = format_width(w->d->pools.at[i].name);
        width = n > width ? n : width;
    }
    return (unsigned)width;
}

static struct fitted_rows fit_rows(const struct diff_writer *w, int kind)
{
    unsigned width = w->doc.form.width, names = names_least(width);
    unsigned figure = w->d->options.metric == DIFF_COUNT ? 13 : 11;
    struct fitted_rows f = {.columns = {[ROW_CHANGE] = {.width = figure},
                                        [ROW_SHARE] = {.width = SHARE_WIDTH + 2},
                                        [ROW_BAR] = {.width = BAR_WIDTH + 2},
                                        [ROW_BEFORE] = {.width = figure},
                                        [ROW_AFTER] = {.width = figure}},
                            .tint = is_growth(kind) ? TINT_HOT : TINT_GOOD};
    unsigned left = fit_columns(f.columns, ROW_COLUMNS, width > names ? width - names : 0);
    f.name_width = left + (width > names ? names : width) - 2;
    if (w->d->pools.len > 1) {
        unsigned pools = pool_width(w);
        f.pool_width = pools < f.name_width / 3 ? pools : f.name_width / 3;
        f.name_width -= f.pool_width + 2;
    }
    for (size_t i = 0; i < w->d->rows.len; i++) {
        const struct diff_row *r = &w->d->rows.at[i];
        uint64_t n = is_growth(r->kind) == is_growth(kind) ? size_of_change(w, r) : 0;
        f.all = n > UINT64_MAX - f.all ? UINT64_MAX : f.all + n;
    }
    return f;
}

static void fitted_titles(struct diff_writer *w, const struct fitted_rows *f)
{
    static const char *const titles[] = {"Change", "Share", "", "Before", "After"};
    struct buf *b = &w->doc.buf;
    tint(b, w->doc.form, TINT_TITLE);
    for (int i = 0; i < ROW_COLUMNS; i++) {
        if (f->columns[i].shown)
            cell(b, titles[i], f->columns[i].width - 2);
    }
    buf_printf(b, "  %*s", f->pool_width ? -(int)f->name_width : 0,
               w->d->options.by == DIFF_TYPE ? "Type" : "Source location");
    buf_puts(b, f->pool_width ? "  Pool" : "");
    tint_end(b, w->doc.form, TINT_TITLE);
    buf_puts(b, "\n");
}

static void fitted_figures(struct diff_writer *w, const struct fitted_rows *f,
                           const struct diff_row *r)
{
    struct change_words words;
    struct buf *b = &w->doc.buf;
    row_change(&words, w, r, "-");
    char *percent = strstr(words.change, " (");
    if (percent)
        *percent = 0;
    tint(b, w->doc.form, f->tint);
    cell(b, words.change, f->columns[ROW_CHANGE].width - 2);
    tint_end(b, w->doc.form, f->tint);
    if (f->columns[ROW_SHARE].shown)
        cell_share(b, w->doc.form, TINT_NONE, size_of_change(w, r), f->all);
    if (f->columns[ROW_BAR].shown)
        cell_bar(b, w->doc.form, f->tint, size_of_change(w, r), f->all);
    if (f->columns[ROW_BEFORE].shown)
        cell(b, words.before, f->columns[ROW_BEFORE].width - 2);
    if (f->columns[ROW_AFTER].shown)
        cell(b, words.after, f->columns[ROW_AFTER].width - 2);
}

static void plain_figures(struct diff_writer *w, const struct diff_row *r)
{
    struct change_words words;
    row_change(&words, w, r, "-");
    cell(&w->doc.buf, words.change, 24);
    cell(&w->doc.buf, words.before, 11);
    cell(&w->doc.buf, words.after, 11);
}

/* "function (file.cpp:12)  type T  pool P" */
static void put_row_name(struct buf *out, const struct diff_writer *w, const struct diff_row *r)
{
    diff_row_name(out, r, w->d->options.by);
    if (r->type.len && w->d->options.by != DIFF_TYPE) {
        buf_puts(out, "  type ");
        diff_row_type(out, r);
    }
    if (w->d->pools.len > 1 && !w->doc.form.width) {
        buf_puts(out, "  pool ");
        buf_put(out, r->pool.p, r->pool.len);
    }
}

static void text_row(struct diff_writer *w, const struct fitted_rows *f, const struct diff_row *r)
{
    struct buf *b = &w->doc.buf;
    struct buf name = {0};
    bool fitted = w->doc.form.width != 0;
    if (fitted)
        fitted_figures(w, f, r);
    else
        plain_figures(w, r);
    buf_puts(b, "  ");
    put_row_name(&name, w, r);
    size_t used = put_shortened(b, buf_view(&name), fitted ? f->name_width : SIZE_MAX);
    if (fitted && f->pool_width) {
        buf_printf(b, "%*s", (int)(f->name_width - used + 2), "");
        put_shortened(b, r->pool, f->pool_width);
    }
    buf_puts(b, "\n");
    buf_end(&name, &w->doc.failed);
    int newest = r->side[1].there ? 1 : 0;
    struct frame_walk walk = frame_walk_start(w->d->trace[newest], r->side[newest].callstack);
    struct frame_view stack;
    while (w->options->stack_traces && frame_walk_next(&walk, &stack))
        put_stack_line(b, &stack, 11);
    document_flush(&w->doc);
}

static void text_checks(struct diff_writer *w)
{
    for (size_t i = 0; i < w->options->check_count; i++) {
        const struct summary_check *c = &w->options->checks[i];
        enum tint which = c->holds ? TINT_GOOD : TINT_HOT;
        buf_puts(&w->doc.buf, i ? "" : "\n");
        tint(&w->doc.buf, w->doc.form, which);
        buf_puts(&w->doc.buf, c->holds ? "ok" : "FAILED");
        tint_end(&w->doc.buf, w->doc.form, which);
        buf_printf(&w->doc.buf, " %s: ", c->name);
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

/* The rows of one kind. */
static void text_kind(struct diff_writer *w, int kind)
{
    struct buf *b = &w->doc.buf;
    char text[FORMAT_SIZE];
    struct diff_range range = diff_rows_of(w, (enum diff_kind)kind);
    struct fitted_rows fitted = {.name_width = 0};
    if (range.count == 0)
        return;
    buf_printf(b, "\n%s: %s, by %s\n", kind_titles[kind],
               format_counted(text, range.count, things[w->d->options.by]),
               diff_metric_name(w->d->options.metric));
    if (w->doc.form.width) {
        fitted = fit_rows(w, kind);
        fitted_titles(w, &fitted);
    } else {
        cell(b, "Change", 24);
        cell(b, "Before", 11);
        cell(b, "After", 11);
        buf_puts(b, w->d->options.by == DIFF_TYPE ? "  Type\n" : "  Source location\n");
    }
    for (size_t i = 0; i < range.shown; i++)
        text_row(w, &fitted, &w->d->rows.at[range.first + i]);
    if (range.shown < range.count)
        buf_printf(b, "and %s more (--limit 0 shows all)\n",
                   format_count(text, range.count - range.shown));
}

void diff_text_write(struct diff_writer *w)
{
    struct buf *b = &w->doc.buf;
    char text[FORMAT_SIZE];
    document_fit(&w->doc);
    tint(b, w->doc.form, TINT_TITLE);
    diff_answer(b, w->d);
    tint_end(b, w->doc.form, TINT_TITLE);
    buf_puts(b, w->d->pools.len ? "\n\n" : "no memory data in either trace\n");
    for (size_t i = 0; i < w->d->pools.len; i++)
        text_pool(w, &w->d->pools.at[i]);
    for (int k = 0; k < DIFF_SAME; k++)
        text_kind(w, k);
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
    buf_end(&name, &w->doc.failed);
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
        buf_printf(b, "- %s ", markdown_sign(c));
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
    junit_write(&w->doc.buf, w->options->suite, w->options->checks, w->options->check_count, false);
}
