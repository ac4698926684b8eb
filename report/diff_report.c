/* Differences between two traces: the machine-readable formats. */

#include "report/diff_report.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "analysis/diff/diff_answer.h"
#include "report/diff_text.h"
#include "report/write/counter_columns.h"
#include "report/write/csv_field.h"

/* ---- JSON */

static json_t *make_side(const struct diff_side *s)
{
    return s->there ? counter_json(json_object(), &s->figures) : json_null();
}

static json_t *json_line_or_null(const struct frame_view *f)
{
    return f->line ? json_integer(f->line) : json_null();
}

static void json_row(struct diff_writer *w, const struct diff_row *r)
{
    int newest = r->side[1].there ? 1 : 0;
    document_element(
        &w->doc,
        json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:b, s:o, s:o, s:I, s:o, s:o, s:o}", "kind",
                  diff_kind_name(r->kind), "pool", json_text(r->pool), "function",
                  json_text_or_null(r->frame.function), "file", json_text_or_null(r->frame.file),
                  "line", json_line_or_null(&r->frame), "base_line", json_line_or_null(&r->before),
                  "unsure", (int)r->unsure, "image", json_text_or_null(r->frame.image), "type",
                  json_text_or_null(r->type), "other_types", (json_int_t)r->more_types, "base",
                  make_side(&r->side[0]), "now", make_side(&r->side[1]), "callstack",
                  json_callstack(w->d->trace[newest], r->side[newest].callstack)));
}

static json_t *make_pool_side(const struct diff_pool *p, int side)
{
    json_t *v = p->there[side] ? json_object() : json_null();
    for (size_t i = 0; v && p->there[side] && i < DIFF_POOL_FIGURES; i++)
        v = json_with(v, diff_pool_figures[i].key,
                      json_count(diff_pool_figure(&p->figures[side], i)));
    return v;
}

static void write_json(struct diff_writer *w)
{
    const struct diff *d = w->d;
    document_open(&w->doc, "tidemark.diff/1");
    document_member(&w->doc, "base", document_trace(d->trace[0]));
    document_member(&w->doc, "now", document_trace(d->trace[1]));
    struct buf answer = {0};
    diff_answer(&answer, d);
    document_member(&w->doc, "answer", json_text_or_null(buf_view(&answer)));
    buf_end(&answer, &w->doc.failed);
    document_member(&w->doc, "metric", json_string(diff_metric_name(d->options.metric)));
    document_member(&w->doc, "noise_known", json_false());
    document_list(&w->doc, "pools");
    for (size_t i = 0; i < d->pools.len; i++) {
        const struct diff_pool *p = &d->pools.at[i];
        document_element(&w->doc, json_pack("{s:o, s:o, s:o}", "name", json_text(p->name), "base",
                                            make_pool_side(p, 0), "now", make_pool_side(p, 1)));
    }
    document_list_end(&w->doc);
    document_member(&w->doc, "same", json_count(d->same));
    document_list(&w->doc, "rows");
    for (int k = 0; k < DIFF_SAME; k++) {
        struct diff_range range = diff_rows_of(w, (enum diff_kind)k);
        for (size_t i = 0; i < range.shown; i++)
            json_row(w, &d->rows.at[range.first + i]);
    }
    document_list_end(&w->doc);
    document_list(&w->doc, "checks");
    for (size_t i = 0; i < w->options->check_count; i++) {
        const struct summary_check *c = &w->options->checks[i];
        document_element(&w->doc,
                         json_pack("{s:s, s:b, s:o}", "name", c->name, "holds", c->holds ? 1 : 0,
                                   "detail", json_text(view_of(c->detail))));
    }
    document_list_end(&w->doc);
    document_close(&w->doc);
}

/* ---- CSV */

static void csv_row(struct diff_writer *w, const struct diff_row *r)
{
    struct buf *b = &w->doc.buf;
    buf_printf(b, "%s,", diff_kind_name(r->kind));
    csv_field(b, r->pool);
    buf_puts(b, ",");
    csv_site(b, &r->frame, r->no_callstack);
    for (int side = 0; side < 2; side++) {
        const struct counter *c = &r->side[side].figures;
        buf_printf(b, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64, c->count,
                   c->bytes, c->live_count, c->live_bytes, c->peak_bytes);
    }
    buf_puts(b, ",");
    csv_field(b, r->type);
    buf_puts(b, ",");
    if (r->before.line)
        buf_printf(b, "%" PRIu32, r->before.line);
    buf_printf(b, ",%d\n", r->unsure);
    document_flush(&w->doc);
}

static void write_csv(struct diff_writer *w)
{
    buf_puts(&w->doc.buf,
             "kind,pool,function,file,line,image,base_count,base_bytes,base_live_count,"
             "base_live_bytes,base_peak_bytes,count,bytes,live_count,live_bytes,peak_bytes,type,"
             "base_line,unsure\n");
    for (int k = 0; k < DIFF_SAME; k++) {
        struct diff_range range = diff_rows_of(w, (enum diff_kind)k);
        for (size_t i = 0; i < range.shown; i++)
            csv_row(w, &w->d->rows.at[range.first + i]);
    }
}

int diff_write(const struct diff *d, const struct diff_report_options *options, FILE *out,
               struct err *e)
{
    static void (*const forms[])(struct diff_writer *) = {[DIFF_TEXT] = diff_text_write,
                                                          [DIFF_JSON] = write_json,
                                                          [DIFF_CSV] = write_csv,
                                                          [DIFF_MARKDOWN] = diff_markdown_write,
                                                          [DIFF_JUNIT] = diff_junit_write};
    struct diff_writer w = {.d = d, .options = options, .doc = document_begin(out)};
    forms[options->format](&w);
    return document_end(&w.doc, e);
}
