#include "report/write/row_table.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/write/csv_field.h"
#include "report/write/markdown_table.h"
#include "report/write/text_cells.h"

#define STACK_INDENT 11u

/* ---- layouts */

static const struct row_column *find_column(const struct row_table *t, struct view key)
{
    const struct row_column *c = t->columns;
    while (c->key && !view_equal(view_of(c->key), key))
        c++;
    return c->key ? c : NULL;
}

/* Takes one entry of a layout; returns its length. */
static size_t take_entry(struct row_writer *w, const struct row_table *t, const char *entry)
{
    struct shown_column *to = &w->shown[w->len++];
    size_t n = strcspn(entry, "|");
    size_t key = strcspn(entry, "=|");
    to->column = find_column(t, (struct view){entry, key});
    if (key == n) {
        to->title = (struct view){entry, w->format == REPORT_TEXT ? 0 : n};
        return n;
    }
    to->title = (struct view){entry + key + 1, n - key - 1};
    const char *colon = memchr(to->title.p, ':', to->title.len);
    if (w->format == REPORT_TEXT && colon) {
        to->title.len = (size_t)(colon - to->title.p);
        to->width = strtoul(colon + 1, NULL, 10);
    }
    return n;
}

/* Room for the pool behind a site, if there are several. */
#define POOL_ROOM 16u

/* Drops the columns of text that have no room on the terminal. */
static void fit_to_terminal(struct row_writer *w)
{
    struct fitted_column fit[ROW_COLUMNS_MAX] = {0};
    unsigned width = w->doc->form.width, names = 0;
    size_t n = 0;
    for (size_t i = 0; i < w->len; i++) {
        enum value_kind kind = w->shown[i].column->kind;
        if (kind == VALUE_SITE)
            names = names_least(width) + 2;
        else if (kind != VALUE_POOL || w->shown[i].title.len)
            fit[i].width = (unsigned)w->shown[i].width + 2;
        else if (w->s && w->s->pools.len > 1)
            fit[i].width = POOL_ROOM;
    }
    unsigned left = fit_columns(fit, w->len, width > names ? width - names : 0);
    w->site_width = names ? names - 2 + left : 0;
    bool full = false;
    for (size_t i = 0; i < w->len; i++) {
        full |= !fit[i].shown;
        if (fit[i].shown && (!full || w->shown[i].width == 0))
            w->shown[n++] = w->shown[i];
    }
    w->left_out = (unsigned)(w->len - n);
    w->len = n;
}

struct row_writer row_writer(struct document *d, const struct row_table *table,
                             const struct selection *s, enum report_format format,
                             bool stack_traces)
{
    struct row_writer w = {.doc = d, .s = s, .format = format};
    const char *at = format == REPORT_TEXT   ? table->text
                     : format == REPORT_JSON ? table->json
                     : format == REPORT_CSV  ? table->csv
                                             : table->markdown;
    do {
        at += take_entry(&w, table, at);
    } while (*at++ && w.len < ROW_COLUMNS_MAX);
    if (format == REPORT_TEXT) {
        document_fit(d);
        if (d->form.width)
            fit_to_terminal(&w);
    }
    if (stack_traces) {
        w.site = find_column(table, view_of("site"));
        w.stack = find_column(table, view_of("callstack"));
    }
    return w;
}

/* ---- values */

static const void *field(const struct row_column *c, const void *row)
{
    return (const char *)row + c->offset;
}

static uint32_t number_of(const struct row_column *c, const void *row)
{
    uint32_t n;
    memcpy(&n, field(c, row), sizeof n);
    return n;
}

static void take_value(struct row_value *v, const struct row_writer *w, const struct row_column *c,
                       const void *row)
{
    v->kind = c->known && !c->known(row) ? VALUE_NONE : c->kind;
    v->name = (struct view){0};
    v->n = v->whole = 0;
    v->word = NULL;
    if (v->kind == VALUE_NONE || v->kind == VALUE_SITE)
        return;
    if (c->get)
        c->get(v, row);
    else if (v->kind == VALUE_POOL)
        v->name = w->s->pools.at[number_of(c, row)].name;
    else if (v->kind == VALUE_NAME)
        memcpy(&v->name, field(c, row), sizeof v->name);
    else if (v->kind == VALUE_COUNT32 || v->kind == VALUE_STACK)
        v->n = number_of(c, row);
    else
        memcpy(&v->n, field(c, row), sizeof v->n); /* `ns` or `x`, too */
}

static const struct frame_view *frame_of(const struct row_column *c, const void *row)
{
    return field(c, row);
}

static bool has_no_callstack(const struct row_column *c, const void *row)
{
    return *((const bool *)row + c->no_callstack);
}

/* A signed number of bytes, rounded. */
static const char *put_rise(struct row_value *v, bool plus)
{
    char bytes[FORMAT_SIZE];
    double size = fabs(v->x) < 1.8e19 ? fabs(v->x) : 1.8e19;
    snprintf(v->room, sizeof v->room, "%s%s",
             v->x < 0           ? "-"
             : v->x > 0 && plus ? "+"
                                : "",
             format_bytes(bytes, (uint64_t)(size + 0.5)));
    return v->room;
}

static const char *put_change(struct row_value *v)
{
    char bytes[FORMAT_SIZE];
    uint64_t by = v->whole > v->n ? v->whole - v->n : v->n - v->whole;
    const char *sign = v->whole > v->n ? "+" : v->whole < v->n ? "-" : "";
    snprintf(v->room, sizeof v->room, "%s%s", sign, format_bytes(bytes, by));
    return v->room;
}

static const char *put_real(struct row_value *v, struct number_style style)
{
    int n = style.precision;
    if (style.letter == 'e')
        snprintf(v->room, sizeof v->room, "%.*e", n, v->x);
    else if (style.letter == 'f')
        snprintf(v->room, sizeof v->room, "%.*f", n, v->x);
    else
        snprintf(v->room, sizeof v->room, "%.*g", n ? n : 6, v->x);
    return v->room;
}

/* From n to whole; saturated at 2^63 - 1 either way. */
static int64_t difference(const struct row_value *v)
{
    uint64_t by = v->whole > v->n ? v->whole - v->n : v->n - v->whole;
    int64_t n = by < INT64_MAX ? (int64_t)by : INT64_MAX;
    return v->whole > v->n ? n : -n;
}

/* What text and Markdown show of a figure or word; NULL: nothing. */
static const char *shown(struct row_value *v, const struct row_column *c, bool plus)
{
    switch (v->kind) {
    case VALUE_COUNT:
    case VALUE_COUNT32:
        return format_count(v->room, v->n);
    case VALUE_BYTES:
        return format_bytes(v->room, v->n);
    case VALUE_TIME:
        return format_duration(v->room, v->ns);
    case VALUE_SHARE:
        return format_percent(v->room, v->n, v->whole);
    case VALUE_CHANGE:
        return put_change(v);
    case VALUE_RISE:
        return put_rise(v, plus);
    case VALUE_REAL:
        return put_real(v, c->text);
    default:
        return v->word;
    }
}

/* ---- text */

static void text_site(struct row_writer *w, const struct row_column *c, const void *row)
{
    struct document *d = w->doc;
    struct buf name = {0};
    put_site(&name, frame_of(c, row), has_no_callstack(c, row));
    buf_puts(&d->buf, "  ");
    put_shortened(&d->buf, buf_view(&name), w->site_width ? w->site_width : SIZE_MAX);
    buf_end(&name, &d->failed);
}

static void text_pool(struct row_writer *w, struct view name, bool is_column)
{
    struct buf *b = &w->doc->buf;
    if (!is_column && w->s->pools.len <= 1)
        return;
    buf_puts(b, is_column ? "  " : "  pool ");
    format_terminal(b, name);
}

static void text_cell(struct row_writer *w, const struct shown_column *to, const void *row)
{
    const struct row_column *c = to->column;
    struct buf *b = &w->doc->buf;
    struct row_value v;
    take_value(&v, w, c, row);
    if (v.kind == VALUE_SITE) {
        text_site(w, c, row);
    } else if (v.kind == VALUE_POOL) {
        text_pool(w, v.name, to->title.len != 0);
    } else if (v.kind == VALUE_NAME) {
        cell_fitted(b, w->doc->form, v.name.len ? v.name : view_of("[no name]"), to->width);
    } else {
        const char *text = shown(&v, c, false);
        cell(b, text ? text : "-", to->width);
    }
}

static void text_titles(struct row_writer *w)
{
    struct buf *b = &w->doc->buf;
    tint(b, w->doc->form, TINT_TITLE);
    for (size_t i = 0; i < w->len; i++) {
        const struct shown_column *to = &w->shown[i];
        char title[FORMAT_SIZE];
        snprintf(title, sizeof title, "%.*s", (int)to->title.len, to->title.p);
        if (to->column->kind == VALUE_NAME)
            cell_text(b, to->title, to->width);
        else if (to->title.len)
            cell(b, title, to->width);
    }
    tint_end(b, w->doc->form, TINT_TITLE);
    buf_puts(b, "\n");
}

static void text_stack(struct row_writer *w, const void *row)
{
    struct frame_walk walk = frame_walk_start(w->s->trace, number_of(w->stack, row));
    struct frame_view f;
    while (frame_walk_next(&walk, &f))
        put_stack_line(&w->doc->buf, &f, STACK_INDENT);
}

/* ---- JSON */

static json_t *json_of(struct row_writer *w, const struct row_value *v)
{
    switch (v->kind) {
    case VALUE_TIME:
        return json_integer(v->ns);
    case VALUE_CHANGE:
        return json_integer(difference(v));
    case VALUE_ADDRESS:
        return json_address(v->n);
    case VALUE_FLAG:
        return json_boolean(v->n);
    case VALUE_REAL:
    case VALUE_RISE:
        return json_real(v->x);
    case VALUE_SHARE:
        return json_real((double)v->n / (double)v->whole);
    case VALUE_NAME:
        return json_text_or_null(v->name);
    case VALUE_POOL:
        return json_text(v->name);
    case VALUE_STACK:
        return json_callstack(w->s->trace, (uint32_t)v->n);
    case VALUE_NONE:
    case VALUE_WORD:
        return v->word ? json_string(v->word) : json_null();
    default:
        return json_count(v->n);
    }
}

/* Adds a member, or "a.b": member b of the object a. */
static json_t *json_member(json_t *to, struct view title, json_t *value)
{
    char key[FORMAT_SIZE];
    snprintf(key, sizeof key, "%.*s", (int)title.len, title.p);
    char *dot = strchr(key, '.');
    if (!dot)
        return json_with(to, key, value);
    *dot = 0;
    if (!json_object_get(to, key))
        to = json_with(to, key, json_object());
    if (json_object_set_new(json_object_get(to, key), dot + 1, value) == 0)
        return to;
    json_decref(to);
    return NULL;
}

json_t *row_json(struct row_writer *w, const void *row)
{
    json_t *to = json_object();
    for (size_t i = 0; i < w->len; i++) {
        const struct row_column *c = w->shown[i].column;
        struct row_value v;
        if (c->kind == VALUE_SITE) {
            to = json_place(to, frame_of(c, row));
            continue;
        }
        take_value(&v, w, c, row);
        to = json_member(to, w->shown[i].title, json_of(w, &v));
    }
    return to;
}

/* ---- CSV */

static void csv_value(struct buf *b, struct row_value *v, const struct row_column *c)
{
    switch (v->kind) {
    case VALUE_NONE:
    case VALUE_WORD:
        buf_puts(b, v->word ? v->word : "");
        break;
    case VALUE_NAME:
    case VALUE_POOL:
        csv_field(b, v->name);
        break;
    case VALUE_TIME:
        buf_printf(b, "%" PRId64, v->ns);
        break;
    case VALUE_ADDRESS:
        buf_printf(b, "0x%" PRIx64, v->n);
        break;
    case VALUE_CHANGE:
        buf_printf(b, "%" PRId64, difference(v));
        break;
    case VALUE_REAL:
    case VALUE_RISE:
        buf_puts(b, put_real(v, c->csv));
        break;
    default:
        buf_printf(b, "%" PRIu64, v->n);
    }
}

static void csv_row(struct row_writer *w, const void *row)
{
    struct buf *b = &w->doc->buf;
    for (size_t i = 0; i < w->len; i++) {
        const struct row_column *c = w->shown[i].column;
        struct row_value v;
        buf_puts(b, i ? "," : "");
        if (!c)
            continue;
        take_value(&v, w, c, row);
        if (v.kind == VALUE_SITE)
            csv_site(b, frame_of(c, row), has_no_callstack(c, row));
        else
            csv_value(b, &v, c);
    }
    buf_puts(b, "\n");
}

static void csv_titles(struct row_writer *w)
{
    struct buf *b = &w->doc->buf;
    for (size_t i = 0; i < w->len; i++) {
        bool is_site = w->shown[i].column && w->shown[i].column->kind == VALUE_SITE;
        struct view title = is_site ? view_of("function,file,line,image") : w->shown[i].title;
        buf_puts(b, i ? "," : "");
        buf_put(b, title.p, title.len);
    }
    buf_puts(b, "\n");
}

/* ---- Markdown */

static void markdown_row(struct row_writer *w, const void *row)
{
    for (size_t i = 0; i < w->len; i++) {
        const struct row_column *c = w->shown[i].column;
        struct row_value v;
        take_value(&v, w, c, row);
        if (v.kind == VALUE_SITE) {
            markdown_site(w->doc, frame_of(c, row), has_no_callstack(c, row));
        } else if (v.kind == VALUE_NAME || v.kind == VALUE_POOL) {
            markdown_code(w->doc, v.name);
        } else {
            const char *text = shown(&v, c, true);
            markdown_text(w->doc, text ? text : "");
        }
    }
    markdown_row_end(w->doc);
}

static void markdown_titles(struct row_writer *w)
{
    char titles[ROW_COLUMNS_MAX * FORMAT_SIZE];
    size_t at = 0;
    for (size_t i = 0; i < w->len; i++)
        at += (size_t)snprintf(titles + at, sizeof titles - at, "%s%.*s", i ? "|" : "",
                               (int)w->shown[i].title.len, w->shown[i].title.p);
    markdown_columns(w->doc, titles);
}

/* ---- all forms */

void row_titles(struct row_writer *w)
{
    if (w->format == REPORT_TEXT)
        text_titles(w);
    else if (w->format == REPORT_CSV)
        csv_titles(w);
    else if (w->format == REPORT_MARKDOWN)
        markdown_titles(w);
}

void row_cells(struct row_writer *w, const void *row)
{
    for (size_t i = 0; i < w->len; i++)
        text_cell(w, &w->shown[i], row);
}

void row_write(struct row_writer *w, const void *row)
{
    if (w->format == REPORT_TEXT) {
        row_cells(w, row);
        buf_puts(&w->doc->buf, "\n");
        if (w->stack)
            text_stack(w, row);
    } else if (w->format == REPORT_JSON) {
        document_element(w->doc, row_json(w, row));
    } else if (w->format == REPORT_CSV) {
        csv_row(w, row);
    } else {
        markdown_row(w, row);
    }
    document_flush(w->doc);
}

void rows_write(struct row_writer *w, const void *rows, size_t n, size_t size)
{
    for (size_t i = 0; i < n; i++)
        row_write(w, (const char *)rows + i * size);
}

void rows_end(struct row_writer *w, size_t shown, size_t all, const char *what)
{
    char text[FORMAT_SIZE];
    if (w->format == REPORT_JSON) {
        document_list_end(w->doc);
        document_close(w->doc);
        return;
    }
    if (w->format == REPORT_MARKDOWN)
        markdown_rest(w->doc, shown, all, what);
    if (w->format != REPORT_TEXT)
        return;
    if (shown < all)
        buf_printf(&w->doc->buf, "%s not shown (--limit 0 shows all)\n",
                   format_counted(text, all - shown, what));
    left_out_text(w->doc, w->left_out);
}

void rows_stacks(struct row_writer *w, const void *rows, size_t n, size_t size)
{
    for (size_t i = 0; i < n && w->stack && w->format == REPORT_MARKDOWN; i++) {
        const void *row = (const char *)rows + i * size;
        markdown_stack(w->doc, w->s->trace, frame_of(w->site, row), number_of(w->stack, row));
    }
}
