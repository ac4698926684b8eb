/* The rows of the text report. On a terminal, columns and names are fitted to its width. */

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "analysis/names/function_name.h"
#include "base/format.h"
#include "report/cost.h"
#include "report/sink.h"
#include "report/write/text_cells.h"

#define NAME_WIDTH_MAX 80u
#define TYPE_WIDTH_MAX 40u
#define POOL_WIDTH_MAX 14u /* on a terminal */
#define STACKS_PER_ROW 3u
#define ROWS_WITH_CALLERS 10u
#define CALLER_INDENT 21u

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
        size_t n = text_width((struct view){(const char *)type.data, type.len}, &r->doc.failed);
        if (n > width && n <= TYPE_WIDTH_MAX)
            width = n;
    }
    buf_end(&type, &r->doc.failed);
    return is_empty ? 0 : width;
}

/* ---- the columns between the name and the type */

static void add_column(struct report *r, enum text_column_kind kind,
                       const struct counter_column *counter, unsigned width)
{
    r->columns[r->column_count++] = (struct text_column){kind, counter, width};
}

static void add_counter(struct report *r, const struct counter_column *c)
{
    for (unsigned i = 0; i < r->column_count; i++) {
        if (r->columns[i].counter == c)
            return;
    }
    add_column(r, COLUMN_COUNTER, c, c->is_bytes ? 9 : 11);
}

static bool is_sorted_by(const struct report *r, const struct counter_column *c)
{
    return c->sort == (int)r->options->sort;
}

/* The columns of text that goes to no terminal. */
static void add_plain_columns(struct report *r, bool groups)
{
    for (unsigned i = 0; i < COUNTER_COLUMNS; i++) {
        const struct counter_column *c = &counter_columns[i];
        if (c->title && (c->sort < 0 || is_sorted_by(r, c)))
            add_counter(r, c);
    }
    if (r->resident)
        add_column(r, COLUMN_RESIDENT, NULL, 9);
    if (groups && text_cost_width(r))
        add_column(r, COLUMN_COST, NULL, text_cost_width(r));
}

/* The figure by which rows are sorted, of which share and bar are. NULL: the resident bytes. */
static const struct counter_column *metric(const struct report *r)
{
    enum sort_key key = r->options->sort;
    unsigned i = COUNTER_SIZE;
    if (key == SORT_RESIDENT)
        return NULL;
    if (key == SORT_COUNT)
        i = COUNTER_COUNT;
    if (key == SORT_LIVE)
        i = COUNTER_LIVE;
    for (unsigned k = 0; k < COUNTER_COLUMNS; k++) {
        if (counter_columns[k].sort >= 0 && is_sorted_by(r, &counter_columns[k]))
            i = k;
    }
    return &counter_columns[i];
}

/* In the order in which they get room, and from left to right. */
static void add_fitted_columns(struct report *r, bool groups, unsigned room)
{
    static const unsigned others[] = {COUNTER_SIZE, COUNTER_PEAK, COUNTER_LIVE, COUNTER_COUNT};
    struct fitted_column fit[TEXT_COLUMNS_MAX] = {0};
    unsigned n = 0;
    if (metric(r))
        add_counter(r, metric(r));
    else
        add_column(r, COLUMN_RESIDENT, NULL, 9);
    add_column(r, COLUMN_SHARE, NULL, SHARE_WIDTH);
    if (groups && text_cost_width(r))
        add_column(r, COLUMN_COST, NULL, text_cost_width(r));
    add_column(r, COLUMN_BAR, NULL, BAR_WIDTH);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        add_counter(r, &counter_columns[others[i]]);
    if (r->resident && metric(r))
        add_column(r, COLUMN_RESIDENT, NULL, 9);
    for (unsigned i = 0; i < r->column_count; i++)
        fit[i].width = r->columns[i].width + 2;
    fit_columns(fit, r->column_count, room);
    for (unsigned i = 0; i < r->column_count; i++) {
        if (fit[i].shown)
            r->columns[n++] = r->columns[i];
        else if (r->columns[i].kind != COLUMN_BAR)
            r->columns_left_out++;
    }
    r->column_count = n;
}

static unsigned columns_width(const struct report *r)
{
    unsigned width = 0;
    for (unsigned i = 0; i < r->column_count; i++)
        width += r->columns[i].width + 2;
    return width;
}

/* Chooses columns, and on a terminal the widths of name, type and pool. */
static void choose_columns(struct report *r, bool groups)
{
    unsigned width = r->doc.form.width;
    r->column_count = r->columns_left_out = 0;
    if (width == 0) {
        add_plain_columns(r, groups);
        return;
    }
    unsigned least = names_least(width);
    unsigned room = width - (unsigned)(r->width < least ? r->width : least);
    unsigned pool = r->pool_width ? (unsigned)r->pool_width + 2 : 0;
    add_fitted_columns(r, groups, room > pool ? room - pool : 0);
    unsigned used = columns_width(r) + pool;
    if (r->type_width && used + r->type_width + 2 + least > width) {
        r->type_width = 0;
        r->columns_left_out++;
    }
    used += r->type_width ? (unsigned)r->type_width + 2 : 0;
    r->width = r->width + used > width ? (used < width ? width - used : 1) : r->width;
}

static void put_column_title(struct report *r, const struct text_column *c)
{
    static const char *const titles[] = {
        [COLUMN_SHARE] = "Share", [COLUMN_BAR] = "", [COLUMN_RESIDENT] = "Resident"};
    if (c->kind == COLUMN_COST)
        text_cost_titles(r);
    else
        cell(&r->doc.buf, c->counter ? c->counter->title : titles[c->kind], c->width);
}

static uint64_t temporary_of_all(const struct summary *s)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < s->pools.len; i++)
        sum += s->pools.at[i].sum == POOL_COUNTS ? s->pools.at[i].figures.temporary : 0;
    return sum;
}

/* What the share of a row is of: all allocations, or the peak of the row's pool. */
static uint64_t whole_of(const struct report *r, const struct summary_row *row)
{
    switch (r->options->sort) {
    case SORT_COUNT:
        return r->s->allocations;
    case SORT_LIVE:
        return r->s->live_bytes;
    case SORT_PEAK:
    case SORT_AT_PEAK:
        return r->s->pools.at[row->pool].figures.peak_bytes;
    case SORT_TEMPORARY:
        return temporary_of_all(r->s);
    case SORT_RESIDENT:
        return r->s->look_bytes;
    default:
        return r->s->total_bytes;
    }
}

static void put_column(struct report *r, const struct text_column *c, const struct summary_row *row)
{
    struct buf *b = &r->doc.buf;
    const struct counter_column *m = metric(r);
    uint64_t part = m ? counter_value(m, &row->figures) : row->resident_bytes;
    uint64_t whole = whole_of(r, row);
    if (c->kind == COLUMN_SHARE)
        cell_share(b, r->doc.form, share_tint(part, whole), part, whole);
    else if (c->kind == COLUMN_BAR)
        cell_bar(b, r->doc.form, share_tint(part, whole), part, whole);
    else if (c->kind == COLUMN_RESIDENT)
        cell_bytes(b, row->resident_bytes, c->width);
    else if (c->kind == COLUMN_COST)
        text_cost(r, row);
    else if (c->counter->is_bytes)
        cell_bytes(b, counter_value(c->counter, &row->figures), c->width);
    else
        cell_count(b, counter_value(c->counter, &row->figures), c->width);
}

/* Writes the last columns without trailing blanks. */
static void put_last_columns(struct report *r, struct view type, const struct view *pool)
{
    struct buf *b = &r->doc.buf;
    bool fitted = r->doc.form.width != 0;
    if (r->type_width) {
        buf_puts(b, "  ");
        size_t width = put_shortened(b, type, fitted ? r->type_width : SIZE_MAX);
        if (pool && width < r->type_width)
            buf_printf(b, "%*s", (int)(r->type_width - width), "");
    }
    if (pool) {
        buf_puts(b, "  ");
        put_shortened(b, *pool, fitted ? r->pool_width : SIZE_MAX);
    }
}

/* ---- titles */

static void measure_names(struct report *r, const struct row_list *rows)
{
    struct buf location = {0};
    for (size_t i = 0; i < rows->len; i++) {
        buf_clear(&location);
        summary_row_place(&location, &rows->at[i]);
        size_t width = text_width(buf_view(&location), &r->doc.failed);
        if (width > r->width && (width <= NAME_WIDTH_MAX || r->doc.form.width))
            r->width = width;
    }
    buf_end(&location, &r->doc.failed);
}

static void measure_pools(struct report *r)
{
    r->pool_width = shows_pool(r) ? strlen("Pool") : 0;
    for (size_t i = 0; i < r->s->pools.len && r->pool_width; i++) {
        size_t width = text_width(r->s->pools.at[i].name, &r->doc.failed);
        r->pool_width = width > r->pool_width ? width : r->pool_width;
    }
    if (r->pool_width > POOL_WIDTH_MAX)
        r->pool_width = POOL_WIDTH_MAX;
}

void text_rows_begin(struct report *r, const struct row_list *rows, bool groups)
{
    const struct view pool = view_of("Pool");
    struct buf *b = &r->doc.buf;
    if (rows->len == 0)
        return;
    const char *title = first_title(r, groups);
    r->width = strlen(title);
    measure_names(r, rows);
    measure_pools(r);
    r->type_width = shows_type(r, groups) ? type_width(r, rows) : 0;
    choose_columns(r, groups);
    buf_puts(b, "\n");
    tint(b, r->doc.form, TINT_TITLE);
    cell_fitted(b, r->doc.form, view_of(title), r->width);
    for (unsigned i = 0; i < r->column_count; i++)
        put_column_title(r, &r->columns[i]);
    put_last_columns(r, view_of("Type"), shows_pool(r) ? &pool : NULL);
    tint_end(b, r->doc.form, TINT_TITLE);
    buf_puts(b, "\n");
}

/* ---- rows */

void text_callstack(struct report *r, uint32_t callstack)
{
    struct frame_walk walk = frame_walk_start(r->s->trace, callstack);
    struct frame_view f;
    while (frame_walk_next(&walk, &f))
        put_stack_line(&r->doc.buf, &f, 11);
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
            buf_printf(&r->doc.buf, "    %s, %s\n",
                       format_counted(count, stack->figures.count, "allocation"),
                       format_bytes(bytes, stack->figures.bytes));
        text_callstack(r, stack->callstack);
    }
    if (row->stack_count > n)
        buf_printf(&r->doc.buf, "    and %s (--by callstack lists all)\n",
                   format_counted(count, row->stack_count - n, "smaller call stack"));
}

/* The heaviest callers of one of the first rows, one line each. */
static void put_callers(struct report *r, const struct summary_row *row)
{
    const struct row_list *rows = r->s->by == GROUP_SITE ? &r->s->sites : &r->s->groups;
    unsigned columns = r->doc.form.width;
    size_t width = columns == 0 ? SIZE_MAX : columns > CALLER_INDENT ? columns - CALLER_INDENT : 1;
    struct buf name = {0};
    for (size_t i = 0; i < row->caller_count && row < rows->at + ROWS_WITH_CALLERS; i++) {
        const struct summary_caller *caller = &r->s->callers.at[row->first_caller + i];
        buf_clear(&name);
        tint(&r->doc.buf, r->doc.form, TINT_FAINT);
        buf_puts(&r->doc.buf, "    ");
        cell_bytes(&r->doc.buf, caller->bytes, 8);
        buf_puts(&r->doc.buf, "  from ");
        put_site(&name, &caller->frame, false);
        put_shortened(&r->doc.buf, buf_view(&name), width);
        tint_end(&r->doc.buf, r->doc.form, TINT_FAINT);
        buf_puts(&r->doc.buf, "\n");
    }
    buf_end(&name, &r->doc.failed);
}

/* Why a row is the site that it is, by its call stack with most bytes. */
static void put_why(struct report *r, const struct summary_row *row)
{
    if (!r->options->why_site || r->s->by > GROUP_FUNCTION || row->callstack == 0)
        return;
    buf_puts(&r->doc.buf, "    why this site, in its call stack with most bytes:\n");
    program_frames_explain(r->options->why_site, row->callstack, &r->doc.buf);
}

void text_row(struct report *r, const struct summary_row *row)
{
    struct buf location = {0};
    summary_row_place(&location, row);
    cell_fitted(&r->doc.buf, r->doc.form, buf_view(&location), r->width);
    buf_end(&location, &r->doc.failed);
    for (unsigned i = 0; i < r->column_count; i++)
        put_column(r, &r->columns[i], row);
    struct buf type = {0};
    put_type(&type, r, row);
    put_last_columns(r, (struct view){(const char *)type.data, type.len},
                     shows_pool(r) ? &r->s->pools.at[row->pool].name : NULL);
    buf_puts(&r->doc.buf, "\n");
    buf_end(&type, &r->doc.failed);
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
    size_t n = r->s->wrappers.list.len;
    if (n == 0 || r->s->by > GROUP_FUNCTION)
        return;
    buf_puts(&r->doc.buf, "passed over as allocation wrappers, by their callers and sizes: ");
    for (size_t i = 0; i < n && i < NAMES; i++) {
        struct buf name = {0};
        buf_puts(&r->doc.buf, i ? ", " : "");
        function_name_short(&name, r->s->wrappers.list.at[i]);
        format_terminal(&r->doc.buf, buf_view(&name));
        buf_end(&name, &r->doc.failed);
    }
    if (n > NAMES)
        buf_printf(&r->doc.buf, " and %s more", format_count(more, n - NAMES));
    buf_puts(&r->doc.buf, " (--no-skip makes them sites)\n");
}

void text_rows_end(struct report *r, const struct row_list *rows, bool groups)
{
    static const char *const names[] = {
        [GROUP_SITE] = "site", [GROUP_FUNCTION] = "function", [GROUP_CALLSTACK] = "call stack",
        [GROUP_TYPE] = "type", [GROUP_POOL] = "pool",         [GROUP_THREAD] = "thread",
        [GROUP_ZONE] = "zone", [GROUP_FRAME] = "frame",
    };
    const char *name = names[groups ? r->s->by : GROUP_SITE];
    char n[FORMAT_SIZE];
    if (rows->cut)
        buf_printf(&r->doc.buf, "%s more %s%s not shown (--limit 0 shows all)\n",
                   format_count(n, rows->cut), name, rows->cut == 1 ? " is" : "s are");
    if (rows->filtered)
        buf_printf(&r->doc.buf, "%s %s below --min-size or --min-count\n",
                   format_counted(n, rows->filtered, name), rows->filtered == 1 ? "is" : "are");
    if (rows->len)
        left_out_text(&r->doc, r->columns_left_out);
    if (rows->len)
        put_wrappers(r);
    if (groups)
        text_frames(r);
}
