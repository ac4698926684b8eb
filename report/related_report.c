#include "report/related_report.h"

#include <inttypes.h>

#include "base/format.h"
#include "report/write/csv_field.h"
#include "report/write/document.h"
#include "report/write/text_cells.h"

#define NAME_WIDTH 40u

static struct view name_of(struct view name)
{
    return name.len ? name : view_of("[no name]");
}

/* ---- text */

static void cell_real(struct buf *b, double x, int digits, size_t width)
{
    char text[400];
    snprintf(text, sizeof text, "%.*f", digits, x);
    cell(b, text, width);
}

static void cell_probability(struct buf *b, double p)
{
    char text[32];
    snprintf(text, sizeof text, "%.1e", p);
    cell(b, text, 8);
}

static void put_pool(struct buf *b, const struct selection *s, uint32_t pool)
{
    buf_puts(b, "  ");
    format_terminal(b, s->pools.at[pool].name);
    buf_puts(b, "\n");
}

static void put_rest(struct buf *b, size_t related, size_t shown, size_t all, const char *what)
{
    char n[FORMAT_SIZE];
    if (related > shown)
        buf_printf(b, "and %s (--limit 0 shows all)\n",
                   format_counted(n, related - shown, "more row"));
    if (all > related)
        buf_printf(b, "%s of a %s and a pool %s no relation (JSON has them)\n",
                   format_counted(n, all - related, "pair"), what,
                   all - related == 1 ? "shows" : "show");
}

static void text_plots(struct buf *b, const struct related *r, const struct selection *s,
                       uint64_t limit)
{
    size_t related = 0;
    while (related < r->plots.len && related_is_one(r->plots.at[related].adjusted))
        related++;
    size_t shown = rows_shown(related, limit);
    if (shown) {
        cell_text(b, view_of("Plot"), NAME_WIDTH);
        cell(b, "Rho", 6);
        cell(b, "r", 6);
        cell(b, "Steps", 6);
        cell(b, "Moved", 6);
        cell(b, "p", 8);
        buf_puts(b, "  Pool\n");
    }
    for (size_t i = 0; i < shown; i++) {
        const struct related_plot *p = &r->plots.at[i];
        cell_text(b, name_of(p->name), NAME_WIDTH);
        cell_real(b, p->spearman, 2, 6);
        cell_real(b, p->pearson, 2, 6);
        cell_count(b, p->n, 6);
        cell_count(b, p->moved, 6);
        cell_probability(b, p->adjusted);
        put_pool(b, s, p->pool);
    }
    put_rest(b, related, shown, r->plots.len, "plot");
    if (r->plots.len == 0)
        buf_puts(b, "no plots\n");
}

/* A cell with signed bytes. */
static void cell_rise(struct buf *b, double rise, size_t width)
{
    char bytes[FORMAT_SIZE];
    char text[FORMAT_SIZE + 1];
    double size = rise < 0 ? -rise : rise;
    format_bytes(bytes, size < 9e18 ? (uint64_t)(size + 0.5) : UINT64_MAX);
    snprintf(text, sizeof text, "%s%s", rise < 0 ? "-" : "", bytes);
    cell(b, text, width);
}

static void text_messages(struct buf *b, const struct related *r, const struct selection *s,
                          uint64_t limit)
{
    size_t related = 0;
    while (related < r->messages.len && related_is_one(r->messages.at[related].adjusted))
        related++;
    size_t shown = rows_shown(related, limit);
    if (shown) {
        cell_text(b, view_of("Message"), NAME_WIDTH);
        cell(b, "Count", 9);
        cell(b, "Used", 7);
        cell(b, "Steep", 7);
        cell(b, "Expected", 8);
        cell(b, "Rise", 10);
        cell(b, "Usual", 10);
        cell(b, "p", 8);
        buf_puts(b, "  Pool\n");
    }
    for (size_t i = 0; i < shown; i++) {
        const struct related_message *m = &r->messages.at[i];
        cell_text(b, name_of(m->text), NAME_WIDTH);
        cell_count(b, m->count, 9);
        cell_count(b, m->n, 7);
        cell_count(b, m->steep, 7);
        cell_real(b, m->expected, 1, 8);
        cell_rise(b, m->rise, 10);
        cell_rise(b, m->usual, 10);
        cell_probability(b, m->adjusted);
        put_pool(b, s, m->pool);
    }
    put_rest(b, related, shown, r->messages.len, "message");
    if (r->messages.len == 0)
        buf_puts(b, "no messages\n");
}

static void write_text(struct buf *b, const struct related *r, const struct selection *s,
                       uint64_t limit)
{
    char step[FORMAT_SIZE];
    char window[FORMAT_SIZE];
    int64_t length = (r->end - r->begin) / (int64_t)r->steps;
    buf_printf(b, "Plots that moved with memory: changes in %" PRIu32 " steps of %s\n", r->steps,
               format_duration(step, length));
    text_plots(b, r, s, limit);
    buf_printf(b, "\nMessages before rises of memory: what came within %s\n",
               format_duration(window, r->window));
    text_messages(b, r, s, limit);
}

/* ---- JSON */

static json_t *real_or_null(double x, bool known)
{
    return known ? json_real(x) : json_null();
}

static void write_json(struct document *d, const struct related *r, const struct selection *s,
                       uint64_t limit)
{
    document_open(d, "tidemark.related/1");
    document_member(d, "trace", document_trace(s->trace));
    document_member(d, "begin_ns", json_integer(r->begin));
    document_member(d, "end_ns", json_integer(r->end));
    document_member(d, "steps", json_integer(r->steps));
    document_member(d, "cells", json_integer(r->cells));
    document_member(d, "window_ns", json_integer(r->window));
    document_member(d, "threshold", json_real(RELATED_BELOW));
    document_list(d, "plots");
    for (size_t i = 0; i < rows_shown(r->plots.len, limit); i++) {
        const struct related_plot *p = &r->plots.at[i];
        bool known = p->p >= 0;
        document_element(
            d, json_pack("{s:o, s:o, s:o, s:I, s:I, s:o, s:o, s:o, s:o, s:b}", "plot",
                         json_text_or_null(p->name), "pool", json_text(s->pools.at[p->pool].name),
                         "points", json_count(p->points), "steps", (json_int_t)p->n, "moved",
                         (json_int_t)p->moved, "spearman", real_or_null(p->spearman, known),
                         "pearson", real_or_null(p->pearson, known), "p", real_or_null(p->p, known),
                         "p_adjusted", real_or_null(p->adjusted, known), "related",
                         related_is_one(p->adjusted) ? 1 : 0));
    }
    document_list_end(d);
    document_list(d, "messages");
    for (size_t i = 0; i < rows_shown(r->messages.len, limit); i++) {
        const struct related_message *m = &r->messages.at[i];
        document_element(
            d, json_pack("{s:o, s:o, s:o, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:b}", "message",
                         json_text_or_null(m->text), "pool", json_text(s->pools.at[m->pool].name),
                         "count", json_count(m->count), "used", (json_int_t)m->n, "steep",
                         (json_int_t)m->steep, "expected", m->expected, "rise_bytes", m->rise,
                         "usual_rise_bytes", m->usual, "p", m->p, "p_adjusted", m->adjusted,
                         "related", related_is_one(m->adjusted) ? 1 : 0));
    }
    document_list_end(d);
    document_close(d);
}

/* ---- CSV */

static void csv_begin(struct buf *b, const char *kind, struct view name, struct view pool)
{
    buf_puts(b, kind);
    csv_field(b, name);
    buf_puts(b, ",");
    csv_field(b, pool);
}

static void write_csv(struct document *d, const struct related *r, const struct selection *s,
                      uint64_t limit)
{
    struct buf *b = &d->buf;
    buf_puts(b, "kind,name,pool,count,used,p,p_adjusted,related,spearman,pearson,moved,steep,"
                "expected,rise_bytes,usual_rise_bytes\n");
    for (size_t i = 0; i < rows_shown(r->plots.len, limit); i++) {
        const struct related_plot *p = &r->plots.at[i];
        csv_begin(b, "plot,", p->name, s->pools.at[p->pool].name);
        buf_printf(b, ",%" PRIu64 ",%" PRIu32 ",", p->points, p->n);
        if (p->p >= 0)
            buf_printf(b, "%.6g,%.6g,%d,%.6g,%.6g", p->p, p->adjusted, related_is_one(p->adjusted),
                       p->spearman, p->pearson);
        else
            buf_puts(b, ",,0,,");
        buf_printf(b, ",%" PRIu32 ",,,,\n", p->moved);
        document_flush(d);
    }
    for (size_t i = 0; i < rows_shown(r->messages.len, limit); i++) {
        const struct related_message *m = &r->messages.at[i];
        csv_begin(b, "message,", m->text, s->pools.at[m->pool].name);
        buf_printf(b, ",%" PRIu64 ",%" PRIu32 ",%.6g,%.6g,%d,,,,%" PRIu32 ",%.6g,%.6g,%.6g\n",
                   m->count, m->n, m->p, m->adjusted, related_is_one(m->adjusted), m->steep,
                   m->expected, m->rise, m->usual);
        document_flush(d);
    }
}

int related_write(const struct related *r, const struct selection *s, enum report_format format,
                  uint64_t limit, FILE *out, struct err *e)
{
    struct document d = document_begin(out);
    if (format == REPORT_TEXT)
        write_text(&d.buf, r, s, limit);
    else if (format == REPORT_JSON)
        write_json(&d, r, s, limit);
    else
        write_csv(&d, r, s, limit);
    return document_end(&d, e);
}
