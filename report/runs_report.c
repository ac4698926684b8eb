/* Differences between two groups of runs: what the formats share, JSON and CSV. */

#include "report/runs_report.h"

#include <inttypes.h>
#include <math.h>

#include "report/runs_text.h"
#include "report/write/csv_field.h"
#include "report/write/json_value.h"

/* ---- JSON */

static json_t *json_number(double n)
{
    if (!isfinite(n))
        return json_null();
    return n == floor(n) && fabs(n) < 0x1p53 ? json_integer((json_int_t)n) : json_real(n);
}

static json_t *make_side(const struct noise_row *r, int side)
{
    return json_pack("{s:o, s:o, s:o}", "median", json_number(r->median[side]), "mean",
                     json_number(r->mean[side]), "spread", json_number(r->spread[side]));
}

/* Adds the outcome of the test. */
static json_t *with_noise(json_t *v, const struct noise_row *r)
{
    v = json_with(v, "base", make_side(r, 0));
    v = json_with(v, "now", make_side(r, 1));
    v = json_with(v, "change", json_number(r->change));
    v = json_with(v, "low", json_number(r->low));
    v = json_with(v, "high", json_number(r->high));
    v = json_with(v, "p", json_number(r->p));
    v = json_with(v, "changed", json_boolean(r->changed));
    v = json_with(v, "unstable", json_boolean(r->unstable));
    return json_with(v, "muted", json_boolean(r->muted));
}

static json_t *make_pool(const struct runs_pool *p)
{
    json_t *totals = json_object();
    for (size_t i = 0; i < DIFF_POOL_FIGURES; i++)
        totals =
            json_with(totals, diff_pool_figures[i].key, with_noise(json_object(), &p->totals[i]));
    return json_pack("{s:o, s:o}", "name", json_text(p->name), "totals", totals);
}

static json_t *make_row(const struct runs_row *r)
{
    json_t *v = json_pack("{s:s, s:o, s:o, s:o, s:o}", "kind", diff_kind_name(r->kind), "pool",
                          json_text(r->pool), "function", json_text_or_null(r->function), "file",
                          json_text_or_null(r->file), "image", json_text_or_null(r->image));
    return with_noise(v, &r->noise);
}

static json_t *make_runs(const struct runs_diff *d, int side)
{
    json_t *list = json_array();
    size_t first = side ? d->noise.runs[0] : 0;
    for (size_t i = 0; i < d->noise.runs[side]; i++) {
        const struct run_figures *f = &d->runs[first + i];
        list = json_add(list, json_pack("{s:o, s:o}", "file", json_text(view_of(f->name)),
                                        "program", json_text_or_null(view_of(f->program))));
    }
    return list;
}

static void write_json(struct runs_writer *w)
{
    const struct runs_diff *d = w->d;
    struct document *doc = &w->doc;
    document_open(doc, "tidemark.runs/1");
    document_member(doc, "base", make_runs(d, 0));
    document_member(doc, "now", make_runs(d, 1));
    document_member(doc, "metric", json_string(diff_metric_name(d->options.metric)));
    document_member(doc, "confidence", json_real(100 - d->options.noise.level * 100));
    document_member(doc, "noise_known", json_boolean(d->noise.can_tell));
    document_member(doc, "least_p", json_number(d->noise.least_p));
    document_member(doc, "divisions", json_count(d->noise.splits));
    document_member(doc, "tested", json_count(d->tested));
    document_list(doc, "pools");
    for (size_t i = 0; i < d->pools.len; i++)
        document_element(doc, make_pool(&d->pools.at[i]));
    document_list_end(doc);
    document_member(doc, "same", json_count(d->count[DIFF_SAME]));
    document_member(doc, "unstable", json_count(d->unstable));
    document_member(doc, "muted", json_count(d->muted));
    document_list(doc, "rows");
    for (int k = 0; k < DIFF_KINDS; k++) {
        size_t first, shown;
        runs_rows_of(w, (enum diff_kind)k, &first, &shown);
        for (size_t i = 0; i < shown; i++)
            document_element(doc, make_row(&d->rows.at[first + i]));
    }
    document_list_end(doc);
    document_list(doc, "checks");
    for (size_t i = 0; i < d->checks.list.len; i++) {
        const struct summary_check *c = &d->checks.list.at[i];
        document_element(doc, json_pack("{s:s, s:b, s:o}", "name", c->name, "holds",
                                        c->holds ? 1 : 0, "detail", json_text(view_of(c->detail))));
    }
    document_list_end(doc);
    document_close(doc);
}

/* ---- CSV */

static void csv_number(struct buf *b, double n)
{
    buf_puts(b, ",");
    if (isfinite(n))
        buf_printf(b, "%.17g", n);
}

static void csv_line(struct runs_writer *w, const char *kind, struct view pool, const char *figure,
                     const struct runs_row *row, const struct noise_row *r)
{
    struct buf *b = &w->doc.buf;
    struct view none = {"", 0};
    buf_printf(b, "%s,", kind);
    csv_field(b, pool);
    buf_printf(b, ",%s,", figure);
    csv_field(b, row ? row->function : none);
    buf_puts(b, ",");
    csv_field(b, row ? row->file : none);
    buf_puts(b, ",");
    csv_field(b, row ? row->image : none);
    for (int side = 0; side < 2; side++) {
        csv_number(b, r->median[side]);
        csv_number(b, r->mean[side]);
        csv_number(b, r->spread[side]);
    }
    csv_number(b, r->change);
    csv_number(b, r->low);
    csv_number(b, r->high);
    csv_number(b, r->p);
    buf_printf(b, ",%d,%d,%d\n", r->changed, r->unstable, r->muted);
    document_flush(&w->doc);
}

static void write_csv(struct runs_writer *w)
{
    const struct runs_diff *d = w->d;
    buf_puts(&w->doc.buf,
             "kind,pool,figure,function,file,image,base_median,base_mean,base_spread,median,mean,"
             "spread,change,low,high,p,changed,unstable,muted\n");
    for (size_t i = 0; i < d->pools.len; i++) {
        for (size_t k = 0; k < DIFF_POOL_FIGURES; k++)
            csv_line(w, "total", d->pools.at[i].name, diff_pool_figures[k].key, NULL,
                     &d->pools.at[i].totals[k]);
    }
    for (int k = 0; k < DIFF_KINDS; k++) {
        size_t first, shown;
        runs_rows_of(w, (enum diff_kind)k, &first, &shown);
        for (size_t i = first; i < first + shown; i++)
            csv_line(w, diff_kind_name((enum diff_kind)k), d->rows.at[i].pool,
                     diff_metric_name(d->options.metric), &d->rows.at[i], &d->rows.at[i].noise);
    }
}

int runs_diff_write(const struct runs_diff *d, const struct diff_report_options *options, FILE *out,
                    struct err *e)
{
    static void (*const forms[])(struct runs_writer *) = {[DIFF_TEXT] = runs_text_write,
                                                          [DIFF_JSON] = write_json,
                                                          [DIFF_CSV] = write_csv,
                                                          [DIFF_MARKDOWN] = runs_markdown_write,
                                                          [DIFF_JUNIT] = runs_junit_write};
    struct runs_writer w = {.d = d, .options = options, .doc = document_begin(out)};
    forms[options->format](&w);
    return document_end(&w.doc, e);
}

/* ---- the figures of a run */

static json_t *make_figures_pool(const struct summary_pool *p)
{
    const struct pool_figures *f = &p->figures;
    return json_pack("{s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "name",
                     json_text(p->name), "counted", p->sum == POOL_COUNTS, "allocations",
                     json_count(f->allocations), "frees", json_count(f->frees), "live_allocations",
                     json_count(f->live), "live_bytes", json_count(f->live_bytes),
                     "permanent_allocations", json_count(p->permanent), "permanent_bytes",
                     json_count(p->permanent_bytes), "peak_bytes", json_count(f->peak_bytes),
                     "total_bytes", json_count(f->total_bytes), "temporary_allocations",
                     json_count(f->temporary));
}

static json_t *make_figures_site(const struct summary *s, const struct summary_row *r)
{
    const struct counter *c = &r->figures;
    json_t *v =
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "pool",
                  json_count(r->pool), "function", json_text_or_null(r->frame.function), "file",
                  json_text_or_null(r->frame.file), "line", json_count(r->frame.line), "image",
                  json_text_or_null(r->frame.image), "permanent", json_count(r->permanent), "count",
                  json_count(c->count), "bytes", json_count(c->bytes), "live_count",
                  json_count(c->live_count), "live_bytes", json_count(c->live_bytes), "peak_bytes",
                  json_count(c->peak_bytes), "at_peak_bytes", json_count(c->at_peak_bytes),
                  "temporary", json_count(c->temporary), "largest", json_count(c->largest));
    return s->has_resident ? json_with(v, "resident_bytes", json_count(r->resident_bytes)) : v;
}

int run_figures_write(const struct run_figures *f, FILE *out, struct err *e)
{
    const struct summary *s = &f->summary;
    struct document d = document_begin(out);
    document_open(&d, "tidemark.figures/1");
    document_member(&d, "program", json_text_or_null(view_of(f->program)));
    document_member(&d, "empty", json_boolean(s->empty));
    document_member(&d, "verdict", json_text(buf_view(&s->verdict)));
    document_member(&d, "resident_bytes", s->has_look ? json_count(s->look_bytes) : json_null());
    document_member(&d, "sites_have_resident", json_boolean(s->has_resident));
    document_list(&d, "pools");
    for (size_t i = 0; i < s->pools.len; i++)
        document_element(&d, make_figures_pool(&s->pools.at[i]));
    document_list_end(&d);
    document_list(&d, "sites");
    for (size_t i = 0; i < s->sites.len; i++)
        document_element(&d, make_figures_site(s, &s->sites.at[i]));
    document_list_end(&d);
    document_list(&d, "faults");
    for (size_t i = 0; i < s->faults.len; i++)
        document_element(&d, json_pack("{s:o, s:o}", "pool", json_text(s->faults.at[i].pool),
                                       "count", json_count(s->faults.at[i].count)));
    document_list_end(&d);
    document_close(&d);
    return document_end(&d, e);
}
