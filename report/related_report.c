#include "report/related_report.h"

#include <inttypes.h>

#include "base/format.h"
#include "report/write/markdown_table.h"
#include "report/write/row_table.h"

/* ---- columns */

static bool is_rated(const void *row)
{
    return ((const struct related_plot *)row)->p >= 0;
}

static void get_plot(struct row_value *v, const void *row)
{
    (void)row;
    v->word = "plot";
}

static void get_message(struct row_value *v, const void *row)
{
    (void)row;
    v->word = "message";
}

static void get_plot_related(struct row_value *v, const void *row)
{
    v->n = related_is_one(((const struct related_plot *)row)->adjusted);
}

static void get_message_related(struct row_value *v, const void *row)
{
    v->n = related_is_one(((const struct related_message *)row)->adjusted);
}

#define PLOT(KEY, KIND, MEMBER) KEY, KIND, .offset = offsetof(struct related_plot, MEMBER)

static const struct row_column plot_columns[] = {
    {"kind", VALUE_WORD, .get = get_plot},
    {PLOT("plot", VALUE_NAME, name)},
    {PLOT("pool", VALUE_POOL, pool)},
    {PLOT("points", VALUE_COUNT, points)},
    {PLOT("steps", VALUE_COUNT32, n)},
    {PLOT("moved", VALUE_COUNT32, moved)},
    {PLOT("spearman", VALUE_REAL, spearman), .known = is_rated, .text = {'f', 2}},
    {PLOT("pearson", VALUE_REAL, pearson), .known = is_rated, .text = {'f', 2}},
    {PLOT("p", VALUE_REAL, p), .known = is_rated},
    {PLOT("p_adjusted", VALUE_REAL, adjusted), .known = is_rated, .text = {'e', 1}},
    {"related", VALUE_FLAG, .get = get_plot_related},
    {0},
};

static const struct row_table plot_table = {
    .columns = plot_columns,
    .text = "plot=Plot:40|spearman=Rho:6|pearson=r:6|steps=Steps:6|moved=Moved:6|p_adjusted=p:8"
            "|pool=Pool",
    .json = "plot|pool|points|steps|moved|spearman|pearson|p|p_adjusted|related",
    .csv = "kind|plot=name|pool|points=count|steps=used|p|p_adjusted|related|spearman|pearson|moved"
           "|=steep|=expected|=rise_bytes|=usual_rise_bytes",
    .markdown = "plot=Plot|pool=Pool|spearman=>Rho|pearson=>r|steps=>Steps|p_adjusted=>p",
};

#define MESSAGE(KEY, KIND, MEMBER) KEY, KIND, .offset = offsetof(struct related_message, MEMBER)

static const struct row_column message_columns[] = {
    {"kind", VALUE_WORD, .get = get_message},
    {MESSAGE("message", VALUE_NAME, text)},
    {MESSAGE("pool", VALUE_POOL, pool)},
    {MESSAGE("count", VALUE_COUNT, count)},
    {MESSAGE("used", VALUE_COUNT32, n)},
    {MESSAGE("steep", VALUE_COUNT32, steep)},
    {MESSAGE("expected", VALUE_REAL, expected), .text = {'f', 1}},
    {MESSAGE("rise_bytes", VALUE_RISE, rise)},
    {MESSAGE("usual_rise_bytes", VALUE_RISE, usual)},
    {MESSAGE("p", VALUE_REAL, p)},
    {MESSAGE("p_adjusted", VALUE_REAL, adjusted), .text = {'e', 1}},
    {"related", VALUE_FLAG, .get = get_message_related},
    {0},
};

/* CSV has the columns of plots. */
static const struct row_table message_table = {
    .columns = message_columns,
    .text = "message=Message:40|count=Count:9|used=Used:7|steep=Steep:7|expected=Expected:8"
            "|rise_bytes=Rise:10|usual_rise_bytes=Usual:10|p_adjusted=p:8|pool=Pool",
    .json = "message|pool|count|used|steep|expected|rise_bytes|usual_rise_bytes|p|p_adjusted"
            "|related",
    .csv = "kind|message|pool|count|used|p|p_adjusted|related||||steep|expected|rise_bytes"
           "|usual_rise_bytes",
    .markdown = "message=Message|pool=Pool|count=>Count|steep=>Steep|expected=>Expected"
                "|rise_bytes=>Rise|usual_rise_bytes=>Usual|p_adjusted=>p",
};

/* ---- text and Markdown: only related rows */

static void text_rest(struct buf *b, size_t related, size_t shown, size_t all, const char *what)
{
    char n[FORMAT_SIZE];
    if (related > shown)
        buf_printf(b, "and %s (--limit 0 shows all)\n",
                   format_counted(n, related - shown, "more row"));
    if (all > related)
        buf_printf(b, "%s of a %s and a pool %s no relation (JSON has them)\n",
                   format_counted(n, all - related, "pair"), what,
                   all - related == 1 ? "shows" : "show");
    if (all == 0)
        buf_printf(b, "no %ss\n", what);
}

/* Rows of one kind, of which the first `related` are related; `none` is what Markdown has instead.
 */
static void related_rows(struct row_writer *w, const void *rows, size_t size, size_t related,
                         size_t all, uint64_t limit, const char *what, const char *none)
{
    size_t n = rows_shown(related, limit);
    if (n)
        row_titles(w);
    else if (w->format == REPORT_MARKDOWN)
        buf_puts(&w->doc->buf, none);
    rows_write(w, rows, n, size);
    if (w->format == REPORT_MARKDOWN)
        rows_end(w, n, related, "more row");
    else
        text_rest(&w->doc->buf, related, n, all, what);
}

static void write_related(struct row_writer *plots, struct row_writer *messages,
                          const struct related *r, uint64_t limit)
{
    struct document *d = plots->doc;
    bool text = plots->format == REPORT_TEXT;
    char step[FORMAT_SIZE];
    size_t n = 0;
    while (n < r->plots.len && related_is_one(r->plots.at[n].adjusted))
        n++;
    if (text)
        buf_printf(&d->buf, "Plots that moved with memory: changes in %" PRIu32 " steps of %s\n",
                   r->steps, format_duration(step, (r->end - r->begin) / (int64_t)r->steps));
    else
        markdown_title(d, "What moved with memory in", plots->s->trace, &plots->s->options);
    related_rows(plots, r->plots.at, sizeof *r->plots.at, n, r->plots.len, limit, "plot",
                 "No plot moved with memory.\n");
    for (n = 0; n < r->messages.len && related_is_one(r->messages.at[n].adjusted);)
        n++;
    buf_puts(&d->buf, "\n");
    if (text)
        buf_printf(&d->buf, "Messages before rises of memory: what came within %s\n",
                   format_duration(step, r->window));
    related_rows(messages, r->messages.at, sizeof *r->messages.at, n, r->messages.len, limit,
                 "message", "No message came before rises of memory.\n");
}

/* ---- JSON and CSV: all rows */

static void json_head(struct document *d, const struct related *r, const struct trace *t)
{
    document_begin_json(d, "tidemark.related/1", t);
    document_member(d, "begin_ns", json_integer(r->begin));
    document_member(d, "end_ns", json_integer(r->end));
    document_member(d, "steps", json_integer(r->steps));
    document_member(d, "cells", json_integer(r->cells));
    document_member(d, "window_ns", json_integer(r->window));
    document_member(d, "threshold", json_real(RELATED_BELOW));
    document_list(d, "plots");
}

int related_write(const struct related *r, const struct selection *s, enum report_format format,
                  uint64_t limit, FILE *out, struct err *e)
{
    struct document d = document_begin(out);
    struct row_writer plots = row_writer(&d, &plot_table, s, format, false);
    struct row_writer messages = row_writer(&d, &message_table, s, format, false);
    if (format == REPORT_TEXT || format == REPORT_MARKDOWN) {
        write_related(&plots, &messages, r, limit);
        return document_end(&d, e);
    }
    bool json = format == REPORT_JSON;
    if (json)
        json_head(&d, r, s->trace);
    row_titles(&plots);
    rows_write(&plots, r->plots.at, rows_shown(r->plots.len, limit), sizeof *r->plots.at);
    if (json) {
        document_list_end(&d);
        document_list(&d, "messages");
    }
    rows_write(&messages, r->messages.at, rows_shown(r->messages.len, limit),
               sizeof *r->messages.at);
    rows_end(&messages, 0, 0, "");
    return document_end(&d, e);
}
