/*
 * What changed, in a sentence, first what the rows below it are compared by: "allocated 71.7 MiB,
 * -3.83 MiB (-5.1 %): -5.69 MiB at realloc_buffer (memscen.cpp:135), …, +748 KiB at 12 other sites;
 * peak 8.00 MiB in pool default, as before".
 */

#include "analysis/diff/diff_answer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "analysis/figures/answer_site.h"
#include "base/format.h"
#include "base/saturate.h"

#define ANSWER_ROWS 3u

/* "+1.50 MiB" */
static const char *put_signed(char *out, size_t size, uint64_t base, uint64_t now, bool is_bytes)
{
    char text[FORMAT_SIZE];
    uint64_t by = now > base ? now - base : base - now;
    const char *number = is_bytes ? format_bytes(text, by) : format_count(text, by);
    snprintf(out, size, "%s%s", now > base ? "+" : now < base ? "-" : "", number);
    return out;
}

const char *diff_change(char *out, size_t size, uint64_t base, uint64_t now, bool is_bytes)
{
    char by[FORMAT_SIZE];
    double percent = base ? ((double)now - (double)base) / (double)base * 100 : 0;
    if (now == base)
        snprintf(out, size, "=");
    else if (base == 0 || fabs(percent) >= 1e6)
        put_signed(out, size, base, now, is_bytes);
    else
        snprintf(out, size, "%s (%+.1f %%)", put_signed(by, sizeof by, base, now, is_bytes),
                 percent);
    return out;
}

/* The pool with the highest peak now, or before if there is nothing now; NULL without pools. */
static const struct diff_pool *highest_pool(const struct diff *d)
{
    const struct diff_pool *high = NULL;
    for (size_t i = 0; i < d->pools.len; i++) {
        const struct diff_pool *p = &d->pools.at[i];
        bool now = high && high->figures[1].peak_bytes != p->figures[1].peak_bytes;
        unsigned side = now ? 1 : 0;
        if (!high || p->figures[side].peak_bytes > high->figures[side].peak_bytes)
            high = p;
    }
    return high;
}

static void put_change(struct buf *out, uint64_t base, uint64_t now, bool is_bytes)
{
    char text[2 * FORMAT_SIZE];
    if (base == now)
        buf_puts(out, ", as before");
    else
        buf_printf(out, ", %s", diff_change(text, sizeof text, base, now, is_bytes));
}

static void put_peak(struct buf *out, const struct diff *d, const struct diff_pool *p)
{
    char text[FORMAT_SIZE];
    buf_printf(out, "peak %s", format_bytes(text, p->figures[1].peak_bytes));
    if (d->pools.len > 1) {
        buf_puts(out, " in pool ");
        format_terminal(out, p->name);
    }
    put_change(out, p->figures[0].peak_bytes, p->figures[1].peak_bytes, true);
}

static uint64_t pool_sum(const struct diff *d, unsigned side, enum diff_metric m)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < d->pools.len; i++) {
        const struct pool_figures *f = &d->pools.at[i].figures[side];
        sum = saturating_add(sum, m == DIFF_COUNT  ? f->allocations
                                  : m == DIFF_LIVE ? f->live_bytes
                                                   : f->total_bytes);
    }
    return sum;
}

static void put_metric(struct buf *out, const struct diff *d)
{
    char text[FORMAT_SIZE];
    enum diff_metric m = d->options.metric;
    uint64_t base = pool_sum(d, 0, m);
    uint64_t now = pool_sum(d, 1, m);
    if (m == DIFF_COUNT)
        buf_printf(out, "%s", format_counted(text, now, "allocation"));
    else
        buf_printf(out, "%s %s", m == DIFF_LIVE ? "live at the end" : "allocated",
                   format_bytes(text, now));
    put_change(out, base, now, m != DIFF_COUNT);
}

static uint64_t change_of(const struct diff_row *r, enum diff_metric m)
{
    uint64_t base = diff_figure(&r->side[0], m);
    uint64_t now = diff_figure(&r->side[1], m);
    return now > base ? now - base : base - now;
}

/* The rows that changed most, most first; their number. Of equal ones the first. */
static size_t find_rows(const struct diff *d, const struct diff_row *most[ANSWER_ROWS])
{
    enum diff_metric m = d->options.metric;
    size_t n = 0;
    for (size_t i = 0; i < d->rows.len; i++) {
        const struct diff_row *row = &d->rows.at[i];
        size_t at = n;
        while (at && change_of(most[at - 1], m) < change_of(row, m)) {
            if (at < ANSWER_ROWS)
                most[at] = most[at - 1];
            at--;
        }
        if (at < ANSWER_ROWS)
            most[at] = row;
        n += n < ANSWER_ROWS;
    }
    return n;
}

static void put_row(struct buf *out, const struct diff *d, const struct diff_row *r)
{
    char text[FORMAT_SIZE];
    enum diff_metric m = d->options.metric;
    struct buf name = {0};
    buf_printf(out, "%s at ",
               put_signed(text, sizeof text, diff_figure(&r->side[0], m),
                          diff_figure(&r->side[1], m), m != DIFF_COUNT));
    if (d->options.by == DIFF_TYPE)
        buf_put(&name, r->type.len ? r->type.p : "[no type]", r->type.len ? r->type.len : 9);
    else if (r->no_callstack)
        buf_puts(&name, "[no call stack]");
    else
        frame_short_name(&name, &r->frame);
    answer_put_site(out, buf_view(&name), &r->frame);
    buf_end(&name, &out->failed);
}

/* What the rows that were not named changed by, together. */
static void put_others(struct buf *out, const struct diff *d, const struct diff_row **named,
                       size_t n)
{
    static const char *const things[] = {[DIFF_SITE] = "other site",
                                         [DIFF_CALLSTACK] = "other call stack",
                                         [DIFF_TYPE] = "other type"};
    char text[FORMAT_SIZE];
    char others[FORMAT_SIZE];
    enum diff_metric m = d->options.metric;
    uint64_t sums[2] = {0};
    for (size_t i = 0; i < d->rows.len; i++) {
        bool is_named = false;
        for (size_t k = 0; k < n; k++)
            is_named |= named[k] == &d->rows.at[i];
        for (int side = 0; side < 2 && !is_named; side++)
            sums[side] = saturating_add(sums[side], diff_figure(&d->rows.at[i].side[side], m));
    }
    format_counted(others, d->rows.len - n, things[d->options.by]);
    if (m == DIFF_PEAK)
        buf_printf(out, ", and %s", others);
    else
        buf_printf(out, ", %s at %s",
                   put_signed(text, sizeof text, sums[0], sums[1], m != DIFF_COUNT), others);
}

void diff_answer(struct buf *out, const struct diff *d)
{
    const struct diff_row *most[ANSWER_ROWS];
    const struct diff_pool *high = highest_pool(d);
    if (!high)
        return;
    /* Peaks of several pools or rows have no sum. */
    if (d->options.metric == DIFF_PEAK)
        put_peak(out, d, high);
    else
        put_metric(out, d);
    size_t n = find_rows(d, most);
    for (size_t i = 0; i < n; i++) {
        buf_puts(out, i ? ", " : ": ");
        put_row(out, d, most[i]);
    }
    if (d->rows.len > n)
        put_others(out, d, most, n);
    if (d->options.metric != DIFF_PEAK) {
        buf_puts(out, "; ");
        put_peak(out, d, high);
    }
}
