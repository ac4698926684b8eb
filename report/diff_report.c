/* Differences between two traces: the machine-readable formats, and the code shared by all. */

#include "report/diff_report.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/format.h"
#include "report/diff_text.h"
#include "report/write/csv_field.h"
#include "report/write/text_cells.h"

bool diff_format_parse(const char *text, enum diff_format *format)
{
    static const char *const names[] = {[DIFF_TEXT] = "text",
                                        [DIFF_JSON] = "json",
                                        [DIFF_CSV] = "csv",
                                        [DIFF_MARKDOWN] = "markdown",
                                        [DIFF_JUNIT] = "junit"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(text, names[i]) == 0) {
            *format = (enum diff_format)i;
            return true;
        }
    }
    return false;
}

/* ---- shared */

const struct diff_figure_of_pool diff_pool_figures[DIFF_POOL_FIGURES] = {
    {"peak_bytes", "Peak", offsetof(struct pool_figures, peak_bytes), true},
    {"live_bytes", "Live at the end", offsetof(struct pool_figures, live_bytes), true},
    {"live_allocations", "Blocks live at the end", offsetof(struct pool_figures, live), false},
    {"total_bytes", "Size of all allocations", offsetof(struct pool_figures, total_bytes), true},
    {"allocations", "Allocations", offsetof(struct pool_figures, allocations), false},
    {"temporary_allocations", "Temporary", offsetof(struct pool_figures, temporary), false},
};

uint64_t diff_pool_figure(const struct diff_pool *p, int side, size_t which)
{
    uint64_t n;
    memcpy(&n, (const char *)&p->figures[side] + diff_pool_figures[which].offset, sizeof n);
    return n;
}

const char *diff_change(char *out, size_t size, uint64_t base, uint64_t now, bool is_bytes)
{
    char text[FORMAT_SIZE];
    uint64_t by = now > base ? now - base : base - now;
    const char *sign = now > base ? "+" : now < base ? "-" : "";
    const char *number = is_bytes ? format_bytes(text, by) : format_count(text, by);
    double percent = base ? ((double)now - (double)base) / (double)base * 100 : 0;
    if (now == base)
        snprintf(out, size, "=");
    else if (base == 0 || fabs(percent) >= 1e6)
        snprintf(out, size, "%s%s", sign, number);
    else
        snprintf(out, size, "%s%s (%+.1f %%)", sign, number, percent);
    return out;
}

void diff_row_name(struct buf *out, const struct diff_row *r, enum diff_by by)
{
    if (by == DIFF_TYPE) {
        struct view name = r->type.len ? r->type : view_of("[no type]");
        buf_put(out, name.p, name.len);
        return;
    }
    put_site(out, &r->frame, r->no_callstack);
    if (!r->side[0].there || !r->side[1].there)
        return;
    if (!r->frame.has_name && !view_equal(r->before.function, r->frame.function)) {
        buf_puts(out, ", before: ");
        frame_name(out, &r->before);
    } else if (r->frame.line != r->before.line && r->before.line) {
        buf_printf(out, ", before: line %" PRIu32, r->before.line);
    }
}

void diff_row_type(struct buf *out, const struct diff_row *r)
{
    buf_put(out, r->type.p, r->type.len);
    if (r->more_types)
        buf_printf(out, ", +%" PRIu32, r->more_types);
}

bool diff_has_types(const struct diff_writer *w)
{
    for (size_t i = 0; i < w->d->rows.len && w->d->options.by != DIFF_TYPE; i++) {
        if (w->d->rows.at[i].type.len)
            return true;
    }
    return false;
}

struct diff_range diff_rows_of(const struct diff_writer *w, enum diff_kind kind)
{
    struct diff_range range = {.count = (size_t)w->d->count[kind]};
    for (int k = 0; k < (int)kind; k++)
        range.first += (size_t)w->d->count[k];
    uint64_t limit = w->options->limit;
    range.shown = limit && limit < range.count ? (size_t)limit : range.count;
    return range;
}

/* ---- JSON */

static json_t *make_side(const struct diff_side *s)
{
    if (!s->there)
        return json_null();
    const struct counter *c = &s->figures;
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "count", json_count(c->count), "bytes",
                     json_count(c->bytes), "live_count", json_count(c->live_count), "live_bytes",
                     json_count(c->live_bytes), "peak_bytes", json_count(c->peak_bytes),
                     "at_peak_bytes", json_count(c->at_peak_bytes), "temporary",
                     json_count(c->temporary));
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
    for (size_t i = 0; v && p->there[side] && i < DIFF_POOL_FIGURES; i++) {
        if (json_object_set_new(v, diff_pool_figures[i].key,
                                json_count(diff_pool_figure(p, side, i))) != 0) {
            json_decref(v);
            v = NULL;
        }
    }
    return v;
}

static void write_json(struct diff_writer *w)
{
    const struct diff *d = w->d;
    document_open(&w->doc, "tidemark.diff/1");
    document_member(&w->doc, "base", document_trace(d->trace[0]));
    document_member(&w->doc, "now", document_trace(d->trace[1]));
    document_member(&w->doc, "metric", json_string(diff_metric_name(d->options.metric)));
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
