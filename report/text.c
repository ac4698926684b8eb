/*
 * The text report: the verdict in the first line, then pools, then rows. All text of the trace
 * passes through format_terminal.
 */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analysis/figures/resident_fact.h"
#include "analysis/names/function_name.h"
#include "analysis/figures/gpu_segments.h"
#include "analysis/questions/near_limit.h"
#include "base/format.h"
#include "report/cost.h"
#include "report/processes.h"
#include "report/sink.h"
#include "report/write/counter_columns.h"
#include "report/write/text_cells.h"

#define NAME_WIDTH_MAX 80u
#define TYPE_WIDTH_MAX 40u
#define STACKS_PER_ROW 3u
#define FAULTS_MAX 20u
#define ROWS_WITH_CALLERS 10u

/* ---- begin, pools */

static void text_begin(struct report *r)
{
    char time[FORMAT_SIZE];
    processes_text(&r->buf, r->options);
    if (r->s->selection.has_at)
        buf_printf(&r->buf, "live at %s: ", format_duration(time, r->s->selection.options.at));
    buf_put(&r->buf, r->s->verdict.data, r->s->verdict.len);
    buf_puts(&r->buf, "\n");
    if (r->s->answer.len) {
        buf_put(&r->buf, r->s->answer.data, r->s->answer.len);
        buf_puts(&r->buf, "\n");
    }
    struct resident_shares shares;
    struct near_limit limit;
    if (r->s->empty || selection_is_narrow(&r->s->selection.options))
        return;
    if (resident_fact_read(r->s->trace, &shares)) {
        resident_words(&r->buf, &shares);
        buf_puts(&r->buf, "\n");
    }
    if (near_limit_read(r->s->trace, &limit)) {
        near_limit_words(&r->buf, &limit);
        buf_puts(&r->buf, "\n");
    }
    struct gpu_segments gpu;
    for (unsigned n = 0; gpu_segments_read(r->s->trace, n, &gpu); n++) {
        gpu_segments_words(&r->buf, &gpu);
        buf_puts(&r->buf, "\n");
    }
}

static void text_pools_begin(struct report *r)
{
    if (r->s->pools.len == 0)
        return;
    r->width = strlen("Pool");
    for (size_t i = 0; i < r->s->pools.len; i++) {
        size_t width = text_width(r->s->pools.at[i].name, &r->failed);
        if (width > r->width && width <= NAME_WIDTH_MAX)
            r->width = width;
    }
    buf_puts(&r->buf, "\n");
    cell_text(&r->buf, view_of("Pool"), r->width);
    cell(&r->buf, "Allocations", 12);
    cell(&r->buf, "Frees", 12);
    cell(&r->buf, "Temporary", 12);
    cell(&r->buf, "Total", 9);
    cell(&r->buf, "Live", 12);
    cell(&r->buf, "Live size", 9);
    cell(&r->buf, "Peak", 9);
    cell(&r->buf, "Peak at", 12);
    buf_puts(&r->buf, "\n");
}

static void text_pool(struct report *r, const struct summary_pool *p)
{
    const struct pool_figures *f = &p->figures;
    struct buf *b = &r->buf;
    char time[FORMAT_SIZE];
    cell_text(b, p->name, r->width);
    cell_count(b, f->allocations, 12);
    cell_count(b, f->frees, 12);
    cell_count(b, f->temporary, 12);
    cell_bytes(b, f->total_bytes, 9);
    cell_count(b, f->live, 12);
    cell_bytes(b, f->live_bytes, 9);
    cell_bytes(b, f->peak_bytes, 9);
    cell(b, f->peak_bytes ? format_duration(time, f->peak_time) : "-", 12);
    buf_puts(b, "\n");
}

/* ---- rows */

static bool is_shown(const struct report *r, const struct counter_column *c)
{
    return c->title && (c->sort < 0 || c->sort == (int)r->options->sort);
}

static bool shows_pool(const struct report *r)
{
    return r->s->pools.len > 1 && r->s->by != GROUP_POOL;
}

static const char *first_title(const struct report *r, bool groups)
{
    static const char *const titles[] = {
        [GROUP_SITE] = "Source location",
        [GROUP_FUNCTION] = "Function",
        [GROUP_CALLSTACK] = "Call stack",
        [GROUP_TYPE] = "Type",
        [GROUP_POOL] = "Pool",
        [GROUP_THREAD] = "Thread",
        [GROUP_ZONE] = "Zone",
        [GROUP_FRAME] = "Frame",
    };
    return titles[groups ? r->s->by : GROUP_SITE];
}

/* Rows that are not the sum of call stacks have no types. */
static bool shows_type(const struct report *r, bool groups)
{
    enum grouping by = r->s->by;
    return !groups || by <= GROUP_POOL;
}

static void put_type(struct buf *out, const struct report *r, const struct summary_row *row)
{
    summary_row_type(out, r->s, row);
    if (out->len == 0)
        buf_puts(out, "-");
}

/* 0: no row has a type, and the column is not printed. */
static size_t type_width(struct report *r, const struct row_list *rows)
{
    struct buf type = {0};
    size_t width = strlen("Type");
    bool is_empty = true;
    for (size_t i = 0; i < rows->len; i++) {
        buf_clear(&type);
        is_empty &= rows->at[i].type_count < 2 && rows->at[i].type.len == 0;
        put_type(&type, r, &rows->at[i]);
        size_t n = text_width((struct view){(const char *)type.data, type.len}, &r->failed);
        if (n > width && n <= TYPE_WIDTH_MAX)
            width = n;
    }
    r->failed |= type.failed;
    buf_release(&type);
    return is_empty ? 0 : width;
}

/* Writes the last columns without trailing blanks. */
static void put_last_columns(struct report *r, struct view type, const struct view *pool)
{
    if (r->type_width) {
        size_t width = text_width(type, &r->failed);
        buf_puts(&r->buf, "  ");
        format_terminal(&r->buf, type);
        if (pool && width < r->type_width)
            buf_printf(&r->buf, "%*s", (int)(r->type_width - width), "");
    }
    if (pool) {
        buf_puts(&r->buf, "  ");
        format_terminal(&r->buf, *pool);
    }
    buf_puts(&r->buf, "\n");
}

static void text_rows_begin(struct report *r, const struct row_list *rows, bool groups)
{
    struct buf location = {0};
    if (rows->len == 0)
        return;
    const char *title = first_title(r, groups);
    r->width = strlen(title);
    for (size_t i = 0; i < rows->len; i++) {
        buf_clear(&location);
        summary_row_place(&location, &rows->at[i]);
        size_t width =
            text_width((struct view){(const char *)location.data, location.len}, &r->failed);
        if (width > r->width && width <= NAME_WIDTH_MAX)
            r->width = width;
    }
    r->failed |= location.failed;
    buf_release(&location);
    buf_puts(&r->buf, "\n");
    cell_text(&r->buf, view_of(title), r->width);
    for (unsigned i = 0; i < COUNTER_COLUMNS; i++) {
        const struct counter_column *c = &counter_columns[i];
        if (is_shown(r, c))
            cell(&r->buf, c->title, c->is_bytes ? 9 : 11);
    }
    if (r->resident)
        cell(&r->buf, "Resident", 9);
    if (groups)
        text_cost_titles(r);
    const struct view pool = view_of("Pool");
    r->type_width = shows_type(r, groups) ? type_width(r, rows) : 0;
    put_last_columns(r, view_of("Type"), shows_pool(r) ? &pool : NULL);
}

static void put_callstack(struct report *r, uint32_t callstack)
{
    struct frame_walk walk = frame_walk_start(r->s->trace, callstack);
    struct frame_view f;
    while (frame_walk_next(&walk, &f))
        put_stack_line(&r->buf, &f, 11);
}

static void put_stacks(struct report *r, const struct summary_row *row)
{
    char count[FORMAT_SIZE];
    char bytes[FORMAT_SIZE];
    size_t n = row->stack_count < STACKS_PER_ROW ? row->stack_count : STACKS_PER_ROW;
    for (size_t i = 0; i < n; i++) {
        const struct summary_stack *stack = &r->s->stacks.at[row->first_stack + i];
        if (!callstacks_get(&r->s->trace->callstacks, stack->callstack))
            continue;
        if (r->s->by != GROUP_CALLSTACK)
            buf_printf(&r->buf, "    %s, %s\n",
                       format_counted(count, stack->figures.count, "allocation"),
                       format_bytes(bytes, stack->figures.bytes));
        put_callstack(r, stack->callstack);
    }
    if (row->stack_count > n)
        buf_printf(&r->buf, "    and %s (--by callstack lists all)\n",
                   format_counted(count, row->stack_count - n, "smaller call stack"));
}

/* The heaviest callers of one of the first rows, one line each. */
static void put_callers(struct report *r, const struct summary_row *row)
{
    const struct row_list *rows = r->s->by == GROUP_SITE ? &r->s->sites : &r->s->groups;
    struct buf name = {0};
    for (size_t i = 0; i < row->caller_count && row < rows->at + ROWS_WITH_CALLERS; i++) {
        const struct summary_caller *caller = &r->s->callers.at[row->first_caller + i];
        buf_clear(&name);
        buf_puts(&r->buf, "    ");
        cell_bytes(&r->buf, caller->bytes, 8);
        buf_puts(&r->buf, "  from ");
        put_site(&name, &caller->frame, false);
        format_terminal(&r->buf, (struct view){(const char *)name.data, name.len});
        buf_puts(&r->buf, "\n");
    }
    r->failed |= name.failed;
    buf_release(&name);
}

/* Why a row is the site that it is, by its call stack with most bytes. */
static void put_why(struct report *r, const struct summary_row *row)
{
    if (!r->options->why_site || r->s->by > GROUP_FUNCTION || row->callstack == 0)
        return;
    buf_puts(&r->buf, "    why this site, in its call stack with most bytes:\n");
    program_frames_explain(r->options->why_site, row->callstack, &r->buf);
}

static void text_row(struct report *r, const struct summary_row *row)
{
    struct buf location = {0};
    summary_row_place(&location, row);
    cell_text(&r->buf, (struct view){(const char *)location.data, location.len}, r->width);
    r->failed |= location.failed;
    buf_release(&location);
    for (unsigned i = 0; i < COUNTER_COLUMNS; i++) {
        const struct counter_column *c = &counter_columns[i];
        if (is_shown(r, c) && c->is_bytes)
            cell_bytes(&r->buf, counter_value(c, &row->figures), 9);
        else if (is_shown(r, c))
            cell_count(&r->buf, counter_value(c, &row->figures), 11);
    }
    if (r->resident)
        cell_bytes(&r->buf, row->resident_bytes, 9);
    text_cost(r, row);
    struct buf type = {0};
    put_type(&type, r, row);
    put_last_columns(r, (struct view){(const char *)type.data, type.len},
                     shows_pool(r) ? &r->s->pools.at[row->pool].name : NULL);
    r->failed |= type.failed;
    buf_release(&type);
    if (r->options->stack_traces)
        put_stacks(r, row);
    else
        put_callers(r, row);
    put_why(r, row);
}

/* The functions that no list names and that are no sites all the same. */
static void put_wrappers(struct report *r)
{
    enum { NAMES = 3 };
    char more[FORMAT_SIZE];
    size_t n = r->s->wrappers.len;
    if (n == 0 || r->s->by > GROUP_FUNCTION)
        return;
    buf_puts(&r->buf, "passed over as allocation wrappers, by their callers and sizes: ");
    for (size_t i = 0; i < n && i < NAMES; i++) {
        struct buf name = {0};
        buf_puts(&r->buf, i ? ", " : "");
        function_name_short(&name, r->s->wrappers.at[i]);
        format_terminal(&r->buf, buf_view(&name));
        r->failed |= name.failed;
        buf_release(&name);
    }
    if (n > NAMES)
        buf_printf(&r->buf, " and %s more", format_count(more, n - NAMES));
    buf_puts(&r->buf, " (--no-skip makes them sites)\n");
}

static void text_rows_end(struct report *r, const struct row_list *rows, bool groups)
{
    static const char *const names[] = {
        [GROUP_SITE] = "site", [GROUP_FUNCTION] = "function", [GROUP_CALLSTACK] = "call stack",
        [GROUP_TYPE] = "type", [GROUP_POOL] = "pool",         [GROUP_THREAD] = "thread",
        [GROUP_ZONE] = "zone", [GROUP_FRAME] = "frame",
    };
    const char *name = names[groups ? r->s->by : GROUP_SITE];
    char n[FORMAT_SIZE];
    if (rows->cut)
        buf_printf(&r->buf, "%s more %s%s not shown (--limit 0 shows all)\n",
                   format_count(n, rows->cut), name, rows->cut == 1 ? " is" : "s are");
    if (rows->filtered)
        buf_printf(&r->buf, "%s %s below --min-size or --min-count\n",
                   format_counted(n, rows->filtered, name), rows->filtered == 1 ? "is" : "are");
    if (rows->len)
        put_wrappers(r);
    if (groups)
        text_frames(r);
}

/* ---- faults, checks */

static void text_faults_begin(struct report *r)
{
    if (r->s->faults.len)
        buf_puts(&r->buf, "\nMemory faults\n");
}

static void put_fault(struct report *r, const struct summary_fault *f)
{
    char n[FORMAT_SIZE];
    struct buf site = {0};
    buf_printf(&r->buf, "  %s: ", fault_kind_name(f->kind));
    if (f->sample_count)
        buf_printf(&r->buf, "0x%" PRIx64 " ", f->samples[0].ptr);
    buf_puts(&r->buf, "in pool ");
    format_terminal(&r->buf, f->pool);
    if (f->least < f->count)
        buf_printf(&r->buf, ", %s to", format_count(n, f->least));
    if (f->least < f->count)
        buf_printf(&r->buf, " %s", format_counted(n, f->count, "time"));
    else if (f->count > 1)
        buf_printf(&r->buf, ", and %s more", format_count(n, f->count - 1));
    buf_puts(&r->buf, ", at ");
    const struct summary_row where = {
        .name = {"", 0}, .frame = f->site, .no_callstack = f->callstack == 0};
    summary_row_place(&site, &where);
    format_terminal(&r->buf, (struct view){(const char *)site.data, site.len});
    r->failed |= site.failed;
    buf_release(&site);
    buf_puts(&r->buf, "\n");
    if (r->options->stack_traces)
        put_callstack(r, f->callstack);
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
        buf_printf(&r->buf, "  and faults at %s (--stack-traces shows all)\n",
                   format_counted(n, r->s->faults.len - FAULTS_MAX, "more call stack"));
    if (r->s->faults_left_out)
        buf_printf(&r->buf, "  and faults at %s that the trace does not name\n",
                   format_counted(n, r->s->faults_left_out, "more call stack"));
}

static void text_checks_begin(struct report *r)
{
    r->first = true;
}

/* Passed checks are omitted, and the verdict reports missing data. */
static void text_check(struct report *r, const struct summary_check *c)
{
    if (c->holds || strcmp(c->name, "memory-data") == 0)
        return;
    buf_puts(&r->buf, r->first ? "\nnote: " : "note: ");
    r->first = false;
    format_terminal(&r->buf, view_of(c->detail));
    if (c->remedy)
        buf_printf(&r->buf, "; %s", c->remedy);
    buf_puts(&r->buf, "\n");
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
};
