/* Differences between two groups of runs in the formats for people: text, Markdown, JUnit XML. */

#include "report/runs_text.h"

#include <math.h>
#include <stdio.h>

#include "base/format.h"
#include "report/junit.h"
#include "report/write/markdown_table.h"
#include "report/write/markup.h"
#include "report/write/text_cells.h"

#define CELL (4ul * FORMAT_SIZE)
#define WIDE 120u /* columns of a terminal with room for medians, a name and a change */

static const char *const kind_titles[] = {[DIFF_NEW] = "New",
                                          [DIFF_GROWN] = "Grown",
                                          [DIFF_SHRUNK] = "Shrunk",
                                          [DIFF_GONE] = "Gone",
                                          [DIFF_SAME] = "Within the noise"};

size_t runs_rows_of(const struct runs_writer *w, enum diff_kind kind, size_t *first, size_t *shown)
{
    *first = 0;
    for (int k = 0; k < (int)kind; k++)
        *first += (size_t)w->d->count[k];
    size_t count = (size_t)w->d->count[kind];
    *shown = rows_shown(count, w->options->limit);
    return count;
}

/* ---- cells */

static const char *put_number(char out[FORMAT_SIZE], double n, bool is_bytes)
{
    uint64_t whole = n < 0x1p63 ? (uint64_t)(n + 0.5) : UINT64_MAX;
    return is_bytes ? format_bytes(out, whole) : format_count(out, whole);
}

/* "1.93 MiB ±0.4 %": the median, and the spread of a run; without it if it is unknown. */
static const char *put_side(char out[CELL], const struct noise_row *r, int side, bool is_bytes)
{
    char number[FORMAT_SIZE];
    put_number(number, r->median[side], is_bytes);
    if (isnan(r->spread[side]) || r->mean[side] == 0)
        snprintf(out, CELL, "%s", number);
    else
        snprintf(out, CELL, "%s ±%.1f %%", number, r->spread[side] / r->mean[side] * 100);
    return out;
}

static const char *put_signed(char out[FORMAT_SIZE + 1], double n, bool is_bytes)
{
    char number[FORMAT_SIZE];
    put_number(number, fabs(n), is_bytes);
    snprintf(out, FORMAT_SIZE + 1, "%s%s", n > 0 ? "+" : n < 0 ? "-" : "", number);
    return out;
}

/* "+1.72 MiB (+818.2 %), +1.70 MiB to +1.74 MiB" */
static const char *put_change(char out[CELL], const struct noise_row *r, bool is_bytes)
{
    char change[FORMAT_SIZE + 1], low[FORMAT_SIZE + 1], high[FORMAT_SIZE + 1], percent[32] = "";
    put_signed(change, r->change, is_bytes);
    if (r->change == 0) {
        snprintf(out, CELL, "=");
        return out;
    }
    if (r->mean[0] > 0)
        snprintf(percent, sizeof percent, " (%+.1f %%)", r->change / r->mean[0] * 100);
    if (isnan(r->low))
        snprintf(out, CELL, "%s%s", change, percent);
    else
        snprintf(out, CELL, "%s%s, %s to %s", change, percent, put_signed(low, r->low, is_bytes),
                 put_signed(high, r->high, is_bytes));
    return out;
}

/* The side of the first column: without a base there is one. */
static int first_side(const struct runs_writer *w)
{
    return w->d->noise.runs[0] ? 0 : 1;
}

/* What the test says of a row; "" if it says nothing. */
static const char *mark_of(const struct noise_row *r)
{
    return r->muted ? "muted" : r->unstable ? "unstable" : "";
}

static void put_row_name(struct buf *out, const struct runs_row *r)
{
    struct frame_view f = {.function = r->function, .file = r->file, .image = r->image};
    if (r->function.len == 0 && r->image.len)
        buf_puts(out, "[no name] ");
    if (r->function.len == 0 && r->image.len)
        buf_put(out, r->image.p, r->image.len);
    else
        put_site(out, &f, r->no_callstack);
}

/* ---- what was tested */

static void put_head(const struct runs_writer *w, struct buf *b)
{
    const struct runs_diff *d = w->d;
    char n[FORMAT_SIZE];
    if (d->noise.runs[0] == 0) {
        buf_printf(b, "%s: medians, and the standard deviation of a run",
                   format_counted(n, d->noise.runs[1], "run"));
        return;
    }
    buf_printf(b, "%s before", format_counted(n, d->noise.runs[0], "run"));
    buf_printf(b, ", %zu after: ", d->noise.runs[1]);
    if (d->noise.can_tell)
        buf_printf(b, "changes of the means with %g %% intervals for all %s together",
                   100 - d->options.noise.level * 100, format_counted(n, d->tested, "figure"));
    else if (d->noise.runs[0] == 1 && d->noise.runs[1] == 1)
        buf_puts(b, "one run on each side cannot show what is noise: no change is established");
    else
        buf_printf(b,
                   "too few to distinguish a change from noise (the least p is %.3g): no change is "
                   "established; %zu against %zu runs can show one",
                   d->noise.least_p, noise_runs_needed(d->options.noise.level),
                   noise_runs_needed(d->options.noise.level));
}

/* How many rows are unstable, and how many were not tested: 0 if --mute matches nothing. */
static void put_left_out(const struct runs_writer *w, struct buf *b)
{
    const struct runs_diff *d = w->d;
    char n[FORMAT_SIZE];
    bool mutes = d->options.mute || d->options.noise.mute_unstable;
    if (d->unstable)
        buf_printf(b, "\nunstable: %s by more than %g %% between runs of one side%s\n",
                   format_counted(n, d->unstable, "row"), d->options.noise.unstable * 100,
                   mutes || !d->noise.runs[0] ? "" : " (diff --mute-unstable leaves such out)");
    if (mutes)
        buf_printf(b, "\nmuted: %s\n", format_counted(n, d->muted, "row"));
}

/* ---- text */

static void text_cells(struct runs_writer *w, const struct noise_row *r, bool is_bytes)
{
    struct buf *b = &w->doc.buf;
    char text[CELL];
    for (int side = first_side(w); side < 2; side++)
        cell(b, put_side(text, r, side, is_bytes), 21);
}

/* Whether a change has a separate line, since the terminal is narrow. */
static bool is_apart(const struct runs_writer *w, const struct noise_row *r)
{
    return w->doc.form.width && w->doc.form.width < WIDE && first_side(w) == 0 && r->change != 0;
}

static void text_change(struct runs_writer *w, const struct noise_row *r, bool is_bytes)
{
    char text[CELL];
    if (first_side(w) == 0)
        buf_printf(&w->doc.buf, "%s%s", is_apart(w, r) ? "\n      " : "  ",
                   put_change(text, r, is_bytes));
}

static void text_pool(struct runs_writer *w, const struct runs_pool *p)
{
    struct buf *b = &w->doc.buf;
    buf_puts(b, "\npool ");
    format_terminal(b, p->name);
    buf_puts(b, "\n");
    for (size_t i = 0; i < DIFF_POOL_FIGURES; i++) {
        const struct noise_row *r = &p->totals[i];
        bool is_bytes = diff_pool_figures[i].is_bytes;
        buf_printf(b, "  %-24s", diff_pool_figures[i].title);
        text_cells(w, r, is_bytes);
        text_change(w, r, is_bytes);
        if (w->d->noise.can_tell && !r->changed && r->change != 0)
            buf_puts(b, "  within the noise");
        if (*mark_of(r))
            buf_printf(b, "  %s", mark_of(r));
        buf_puts(b, "\n");
    }
}

static void text_row(struct runs_writer *w, const struct runs_row *r)
{
    struct buf *b = &w->doc.buf;
    struct buf name = {0};
    bool is_bytes = runs_is_bytes(w->d);
    text_cells(w, &r->noise, is_bytes);
    put_row_name(&name, r);
    buf_puts(b, "  ");
    format_terminal(b, buf_view(&name));
    bool apart = is_apart(w, &r->noise);
    if (apart)
        text_change(w, &r->noise, is_bytes);
    if (w->d->pools.len > 1) {
        buf_puts(b, "  pool ");
        format_terminal(b, r->pool);
    }
    if (!apart)
        text_change(w, &r->noise, is_bytes);
    if (*mark_of(&r->noise))
        buf_printf(b, "  %s", mark_of(&r->noise));
    buf_puts(b, "\n");
    buf_end(&name, &w->doc.failed);
    document_flush(&w->doc);
}

static void text_rows(struct runs_writer *w, enum diff_kind kind)
{
    struct buf *b = &w->doc.buf;
    char text[FORMAT_SIZE];
    size_t first, shown;
    size_t count = runs_rows_of(w, kind, &first, &shown);
    if (count == 0)
        return;
    bool alone = first_side(w) == 1;
    const char *title = alone                                        ? "Functions"
                        : kind == DIFF_SAME && !w->d->noise.can_tell ? "Not established"
                                                                     : kind_titles[kind];
    buf_printf(b, "\n%s: %s, by %s\n", title, format_counted(text, count, "function"),
               diff_metric_name(w->d->options.metric));
    if (!alone)
        cell(b, "Before", 21);
    cell(b, alone ? "Median" : "After", 21);
    buf_puts(b, alone ? "  Function\n" : "  Function and change\n");
    for (size_t i = 0; i < shown; i++)
        text_row(w, &w->d->rows.at[first + i]);
    if (shown < count)
        buf_printf(b, "and %s more (--limit 0 shows all)\n", format_count(text, count - shown));
}

void runs_text_write(struct runs_writer *w)
{
    struct buf *b = &w->doc.buf;
    document_fit(&w->doc);
    put_head(w, b);
    buf_puts(b, "\n");
    for (size_t i = 0; i < w->d->pools.len; i++)
        text_pool(w, &w->d->pools.at[i]);
    for (int k = 0; k < DIFF_KINDS; k++)
        text_rows(w, (enum diff_kind)k);
    put_left_out(w, b);
    for (size_t i = 0; i < w->d->checks.list.len; i++) {
        const struct summary_check *c = &w->d->checks.list.at[i];
        buf_printf(b, "%s%s %s: ", i ? "" : "\n", c->holds ? "ok" : "FAILED", c->name);
        format_terminal(b, view_of(c->detail));
        buf_puts(b, "\n");
    }
}

/* ---- Markdown */

static void markdown_cells(struct runs_writer *w, const struct noise_row *r, bool is_bytes)
{
    struct buf *b = &w->doc.buf;
    char text[CELL];
    for (int side = first_side(w); side < 2; side++)
        buf_printf(b, " | %s", put_side(text, r, side, is_bytes));
    if (first_side(w) == 0)
        buf_printf(b, " | %s", put_change(text, r, is_bytes));
    buf_printf(b, " | %s |\n", mark_of(r));
    document_flush(&w->doc);
}

static void markdown_pool(struct runs_writer *w, const struct runs_pool *p, bool changed)
{
    struct buf *b = &w->doc.buf;
    for (size_t i = 0; i < DIFF_POOL_FIGURES; i++) {
        if (p->totals[i].changed != changed)
            continue;
        buf_puts(b, "| ");
        markup_code(b, p->name);
        buf_printf(b, " %s", diff_pool_figures[i].title);
        markdown_cells(w, &p->totals[i], diff_pool_figures[i].is_bytes);
    }
}

static void markdown_row(struct runs_writer *w, const struct runs_row *r)
{
    struct buf name = {0};
    put_row_name(&name, r);
    buf_puts(&w->doc.buf, "| ");
    markup_code(&w->doc.buf, buf_view(&name));
    if (r->kind == DIFF_NEW || r->kind == DIFF_GONE)
        buf_printf(&w->doc.buf, " (%s)", diff_kind_name(r->kind));
    buf_end(&name, &w->doc.failed);
    markdown_cells(w, &r->noise, runs_is_bytes(w->d));
}

/* The rows that changed, or those that did not. Returns how many were cut. */
static size_t markdown_table(struct runs_writer *w, bool changed)
{
    size_t cut = 0;
    buf_puts(&w->doc.buf,
             first_side(w)
                 ? "| | Median | |\n| --- | ---: | --- |\n"
                 : "| | Before | After | Change | |\n| --- | ---: | ---: | ---: | --- |\n");
    for (size_t i = 0; i < w->d->pools.len; i++)
        markdown_pool(w, &w->d->pools.at[i], changed);
    for (int k = 0; k < DIFF_KINDS; k++) {
        size_t first, shown;
        if ((k == DIFF_SAME) == changed)
            continue;
        cut += runs_rows_of(w, (enum diff_kind)k, &first, &shown);
        cut -= shown;
        for (size_t i = 0; i < shown; i++)
            markdown_row(w, &w->d->rows.at[first + i]);
    }
    return cut;
}

static bool has_changes(const struct runs_diff *d)
{
    bool any = d->count[DIFF_SAME] < d->rows.len;
    for (size_t i = 0; i < d->pools.len; i++) {
        for (size_t k = 0; k < DIFF_POOL_FIGURES; k++)
            any |= d->pools.at[i].totals[k].changed;
    }
    return any;
}

static void markdown_cut(struct runs_writer *w, size_t cut)
{
    char text[FORMAT_SIZE];
    if (cut)
        buf_printf(&w->doc.buf, "\n%s not shown.\n", format_counted(text, cut, "more row"));
}

void runs_markdown_write(struct runs_writer *w)
{
    struct buf *b = &w->doc.buf;
    buf_puts(b, MARKUP_MARKER "### Memory\n\n");
    for (size_t i = 0; i < w->d->checks.list.len; i++) {
        const struct summary_check *c = &w->d->checks.list.at[i];
        buf_printf(b, "- %s ", markdown_sign(c));
        markup_code(b, view_of(c->name));
        buf_puts(b, ": ");
        markup_code(b, view_of(c->detail));
        buf_puts(b, i + 1 == w->d->checks.list.len ? "\n\n" : "\n");
    }
    put_head(w, b);
    buf_puts(b, ".\n\n");
    if (has_changes(w->d))
        markdown_cut(w, markdown_table(w, true));
    else if (w->d->noise.can_tell)
        buf_puts(b, "Nothing changed beyond the noise.\n");
    bool folded = first_side(w) == 0;
    if (folded)
        buf_puts(b, w->d->noise.can_tell
                        ? "\n<details><summary>Within the noise</summary>\n\n"
                        : "\n<details open><summary>Not established</summary>\n\n");
    markdown_cut(w, markdown_table(w, false));
    if (folded)
        buf_puts(b, "\n</details>\n");
    put_left_out(w, b);
}

/* ---- JUnit XML */

void runs_junit_write(struct runs_writer *w)
{
    junit_write(&w->doc.buf, w->options->suite, w->d->checks.list.at, w->d->checks.list.len, false);
}
