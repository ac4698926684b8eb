/*
 * The text report: the verdict in the first line, then pools, then rows. All text of the trace
 * passes through format_terminal.
 */

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "analysis/figures/summary_facts.h"
#include "base/format.h"
#include "report/processes.h"
#include "report/sink.h"
#include "report/write/text_cells.h"

#define NAME_WIDTH_MAX 80u
#define FAULTS_MAX 20u

/* ---- begin, pools */

static void text_begin(struct report *r)
{
    char time[FORMAT_SIZE];
    processes_text(&r->doc.buf, r->options);
    if (r->s->selection.has_at)
        buf_printf(&r->doc.buf, "live at %s: ", format_duration(time, r->s->selection.options.at));
    buf_put(&r->doc.buf, r->s->verdict.data, r->s->verdict.len);
    buf_puts(&r->doc.buf, "\n");
    if (r->s->answer.len) {
        tint(&r->doc.buf, r->doc.form, TINT_TITLE);
        buf_put(&r->doc.buf, r->s->answer.data, r->s->answer.len);
        tint_end(&r->doc.buf, r->doc.form, TINT_TITLE);
        buf_puts(&r->doc.buf, "\n");
    }
    if (!r->s->empty && !selection_is_narrow(&r->s->selection.options))
        summary_lines(&r->doc.buf, r->s->trace);
}

#define POOL_COLUMNS 8u

enum pool_value { POOL_COUNT, POOL_BYTES, POOL_PEAK_TIME };

/* From left to right; `rank`: the order in which they get room on a terminal. */
static const struct {
    const char *title;
    uint8_t width, rank;
    enum pool_value value;
    size_t offset; /* of a uint64_t in struct pool_figures */
} pool_columns[POOL_COLUMNS] = {
    {"Allocations", 12, 3, POOL_COUNT, offsetof(struct pool_figures, allocations)},
    {"Frees", 12, 6, POOL_COUNT, offsetof(struct pool_figures, frees)},
    {"Temporary", 12, 7, POOL_COUNT, offsetof(struct pool_figures, temporary)},
    {"Total", 9, 4, POOL_BYTES, offsetof(struct pool_figures, total_bytes)},
    {"Live", 12, 5, POOL_COUNT, offsetof(struct pool_figures, live)},
    {"Live size", 9, 2, POOL_BYTES, offsetof(struct pool_figures, live_bytes)},
    {"Peak", 9, 0, POOL_BYTES, offsetof(struct pool_figures, peak_bytes)},
    {"Peak at", 12, 1, POOL_PEAK_TIME, 0},
};

static void choose_pool_columns(struct report *r)
{
    struct fitted_column fit[POOL_COLUMNS];
    unsigned width = r->doc.form.width;
    r->pool_columns = (1u << POOL_COLUMNS) - 1;
    if (width == 0)
        return;
    if (r->width > names_least(width))
        r->width = names_least(width);
    for (unsigned i = 0; i < POOL_COLUMNS; i++)
        fit[pool_columns[i].rank].width = pool_columns[i].width + 2u;
    fit_columns(fit, POOL_COLUMNS, width - (unsigned)r->width);
    for (unsigned i = 0; i < POOL_COLUMNS; i++)
        r->pool_columns &= ~((unsigned)!fit[pool_columns[i].rank].shown << i);
}

static void text_pools_begin(struct report *r)
{
    struct buf *b = &r->doc.buf;
    if (r->s->pools.len == 0)
        return;
    r->width = strlen("Pool");
    for (size_t i = 0; i < r->s->pools.len; i++) {
        size_t width = text_width(r->s->pools.at[i].name, &r->doc.failed);
        if (width > r->width && width <= NAME_WIDTH_MAX)
            r->width = width;
    }
    choose_pool_columns(r);
    buf_puts(b, "\n");
    tint(b, r->doc.form, TINT_TITLE);
    cell_text(b, view_of("Pool"), r->width);
    for (unsigned i = 0; i < POOL_COLUMNS; i++) {
        if (r->pool_columns >> i & 1)
            cell(b, pool_columns[i].title, pool_columns[i].width);
    }
    tint_end(b, r->doc.form, TINT_TITLE);
    buf_puts(b, "\n");
}

static void text_pool(struct report *r, const struct summary_pool *p)
{
    struct buf *b = &r->doc.buf;
    char time[FORMAT_SIZE];
    cell_fitted(b, r->doc.form, p->name, r->width);
    for (unsigned i = 0; i < POOL_COLUMNS; i++) {
        uint64_t n = 0;
        size_t width = pool_columns[i].width;
        if (!(r->pool_columns >> i & 1))
            continue;
        memcpy(&n, (const char *)&p->figures + pool_columns[i].offset, sizeof n);
        if (pool_columns[i].value == POOL_COUNT)
            cell_count(b, n, width);
        else if (pool_columns[i].value == POOL_BYTES)
            cell_bytes(b, n, width);
        else
            cell(b, p->figures.peak_bytes ? format_duration(time, p->figures.peak_time) : "-",
                 width);
    }
    buf_puts(b, "\n");
}

/* ---- faults, checks */

static void text_faults_begin(struct report *r)
{
    if (r->s->faults.len == 0)
        return;
    buf_puts(&r->doc.buf, "\n");
    tint(&r->doc.buf, r->doc.form, TINT_HOT);
    buf_puts(&r->doc.buf, "Memory faults");
    tint_end(&r->doc.buf, r->doc.form, TINT_HOT);
    buf_puts(&r->doc.buf, "\n");
}

static void put_fault(struct report *r, const struct summary_fault *f)
{
    char n[FORMAT_SIZE];
    struct buf site = {0};
    buf_printf(&r->doc.buf, "  %s: ", fault_kind_name(f->kind));
    if (f->sample_count)
        buf_printf(&r->doc.buf, "0x%" PRIx64 " ", f->samples[0].ptr);
    buf_puts(&r->doc.buf, "in pool ");
    format_terminal(&r->doc.buf, f->pool);
    if (f->least < f->count)
        buf_printf(&r->doc.buf, ", %s to", format_count(n, f->least));
    if (f->least < f->count)
        buf_printf(&r->doc.buf, " %s", format_counted(n, f->count, "time"));
    else if (f->count > 1)
        buf_printf(&r->doc.buf, ", and %s more", format_count(n, f->count - 1));
    buf_puts(&r->doc.buf, ", at ");
    const struct summary_row where = {
        .name = {"", 0}, .frame = f->site, .no_callstack = f->callstack == 0};
    summary_row_place(&site, &where);
    format_terminal(&r->doc.buf, (struct view){(const char *)site.data, site.len});
    buf_end(&site, &r->doc.failed);
    buf_puts(&r->doc.buf, "\n");
    if (r->options->stack_traces)
        text_callstack(r, f->callstack);
}

static void text_fault(struct report *r, const struct summary_fault *f)
{
    if (f < r->s->faults.at + FAULTS_MAX || r->options->stack_traces)
        put_fault(r, f);
}

static void text_faults_end(struct report *r)
{
    char n[FORMAT_SIZE];
    if (r->s->faults.len > FAULTS_MAX && !r->options->stack_traces)
        buf_printf(&r->doc.buf, "  and faults at %s (--stack-traces shows all)\n",
                   format_counted(n, r->s->faults.len - FAULTS_MAX, "more call stack"));
    if (r->s->faults_left_out)
        buf_printf(&r->doc.buf, "  and faults at %s that the trace does not name\n",
                   format_counted(n, r->s->faults_left_out, "more call stack"));
}

static void text_checks_begin(struct report *r)
{
    r->doc.first = true;
}

/* Passed checks are omitted, and the verdict reports missing data. */
static void text_check(struct report *r, const struct summary_check *c)
{
    if (c->holds || strcmp(c->name, "memory-data") == 0)
        return;
    buf_puts(&r->doc.buf, r->doc.first ? "\n" : "");
    r->doc.first = false;
    tint(&r->doc.buf, r->doc.form, TINT_WARM);
    buf_puts(&r->doc.buf, "note:");
    tint_end(&r->doc.buf, r->doc.form, TINT_WARM);
    buf_puts(&r->doc.buf, " ");
    format_terminal(&r->doc.buf, view_of(c->detail));
    if (c->remedy)
        buf_printf(&r->doc.buf, "; %s", c->remedy);
    buf_puts(&r->doc.buf, "\n");
}

static void text_end(struct report *r)
{
    const struct buf *advice = r->options->advice;
    if (!advice)
        return;
    buf_put(&r->doc.buf, advice->data, advice->len);
    r->doc.failed |= advice->failed;
}

const struct report_sink report_text = {
    .begin = text_begin,
    .pools_begin = text_pools_begin,
    .pool = text_pool,
    .rows_begin = text_rows_begin,
    .row = text_row,
    .rows_end = text_rows_end,
    .faults_begin = text_faults_begin,
    .fault = text_fault,
    .faults_end = text_faults_end,
    .checks_begin = text_checks_begin,
    .check = text_check,
    .end = text_end,
};
