#include "report/leaks_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/format.h"
#include "report/write/csv_field.h"
#include "report/write/document.h"
#include "report/write/text_cells.h"

struct writer {
    const struct selection *s;
    const struct leak_report_options *options;
    struct document doc;
};

static struct view pool_name(const struct writer *w, uint32_t pool)
{
    return w->s->pools.at[pool].name;
}

static void text_name(struct writer *w, const struct frame_view *f, bool no_callstack,
                      uint32_t pool)
{
    struct buf name = {0};
    put_site(&name, f, no_callstack);
    buf_puts(&w->doc.buf, "  ");
    format_terminal(&w->doc.buf, buf_view(&name));
    w->doc.failed |= name.failed;
    buf_release(&name);
    if (w->s->pools.len > 1) {
        buf_puts(&w->doc.buf, "  pool ");
        format_terminal(&w->doc.buf, pool_name(w, pool));
    }
    buf_puts(&w->doc.buf, "\n");
}

static void text_stack(struct writer *w, uint32_t callstack)
{
    struct frame_walk walk = frame_walk_start(w->s->trace, callstack);
    struct frame_view f;
    while (w->options->stack_traces && frame_walk_next(&walk, &f))
        put_stack_line(&w->doc.buf, &f, 11);
}

static void text_cut(struct writer *w, size_t rows)
{
    char text[FORMAT_SIZE];
    if (w->options->limit && rows > w->options->limit)
        buf_printf(&w->doc.buf, "%s not shown (--limit 0 shows all)\n",
                   format_counted(text, rows - w->options->limit, "more site"));
}

/* The site in JSON and CSV. */
static json_t *make_site(const struct writer *w, const struct frame_view *f, uint32_t pool,
                         uint32_t callstack)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "pool", json_text(pool_name(w, pool)),
                     "function", json_text_or_null(f->function), "file", json_text_or_null(f->file),
                     "line", f->line ? json_integer(f->line) : json_null(), "image",
                     json_text_or_null(f->image), "callstack",
                     json_callstack(w->s->trace, callstack));
}

/* Adds members to an object; takes over both references. */
static json_t *join(json_t *to, json_t *more)
{
    if (!to || !more || json_object_update(to, more) != 0) {
        json_decref(to);
        to = NULL;
    }
    json_decref(more);
    return to;
}

static void csv_where(struct writer *w, const struct frame_view *f, bool no_callstack,
                      uint32_t pool)
{
    csv_field(&w->doc.buf, pool_name(w, pool));
    buf_puts(&w->doc.buf, ",");
    csv_site(&w->doc.buf, f, no_callstack);
}

/* ---- leaks */

static const char *const kind_titles[] = {
    [LEAK_GROWING] = "Never freed and still growing",
    [LEAK_HELD] = "Live at the end, without measurable growth",
    [LEAK_AT_START] = "Allocated once at the start",
};

static void text_leaks_head(struct writer *w, const struct leaks *l)
{
    char a[FORMAT_SIZE];
    char b[FORMAT_SIZE];
    uint64_t count;
    uint64_t bytes;
    leaks_total(l, &count, &bytes);
    struct buf *out = &w->doc.buf;
    if (count == 0) {
        buf_puts(out, "nothing is live at the end");
    } else {
        buf_printf(out, "%s live at the end", format_counted(a, count, "allocation"));
        buf_printf(out, " (%s)", format_bytes(b, bytes));
        buf_printf(out, "; growing: %s at ", format_bytes(b, l->bytes[LEAK_GROWING]));
        uint64_t sites = 0;
        while (sites < l->rows.len && l->rows.at[sites].kind == LEAK_GROWING)
            sites++;
        buf_puts(out, format_counted(a, sites, "site"));
    }
    if (l->suppressed_count)
        buf_printf(out, "; suppressed: %s (%s)", format_count(a, l->suppressed_count),
                   format_bytes(b, l->suppressed_bytes));
    buf_puts(out, "\n");
}

static void cell_rate(struct buf *b, const struct leak_row *r)
{
    char bytes[FORMAT_SIZE];
    char text[FORMAT_SIZE + 8];
    if (r->spread < 3 || fabs(r->rate) < 0.5) {
        cell(b, "-", 12);
        return;
    }
    double size = fabs(r->rate) < 1.8e19 ? fabs(r->rate) : 1.8e19;
    snprintf(text, sizeof text, "%s%s/s", r->rate < 0 ? "-" : "+",
             format_bytes(bytes, (uint64_t)size));
    cell(b, text, 12);
}

static void text_leak(struct writer *w, const struct leak_row *r)
{
    struct buf *b = &w->doc.buf;
    char text[FORMAT_SIZE];
    cell_bytes(b, r->bytes, 9);
    cell_count(b, r->count, 11);
    cell(b, format_percent(text, r->count, r->allocations), 13);
    cell(b, format_duration(text, r->first), 12);
    cell(b, format_duration(text, r->last), 12);
    cell_rate(b, r);
    if (r->spread >= 3)
        snprintf(text, sizeof text, "%.1f", r->z);
    cell(b, r->spread >= 3 ? text : "-", 5);
    const char *confidence = leak_confidence_name(r->confidence);
    cell(b, confidence ? confidence : "-", 12);
    text_name(w, &r->frame, r->no_callstack, r->pool);
    text_stack(w, r->callstack);
}

static void text_kind(struct writer *w, enum leak_kind kind)
{
    static const char *const titles[] = {"Live size", "Live", "Never freed", "First",
                                         "Last",      "Rate", "z",           "Confidence"};
    static const size_t widths[] = {9, 11, 13, 12, 12, 12, 5, 12};
    buf_printf(&w->doc.buf, "\n%s\n", kind_titles[kind]);
    for (size_t i = 0; i < sizeof titles / sizeof *titles; i++)
        cell(&w->doc.buf, titles[i], widths[i]);
    buf_puts(&w->doc.buf, "  Source location\n");
}

static void text_suppressions(struct writer *w, const struct suppressions *s)
{
    char text[FORMAT_SIZE];
    bool first = true;
    for (size_t i = 0; s && i < s->list.len; i++) {
        if (s->list.at[i].count == 0)
            continue;
        if (first)
            buf_puts(&w->doc.buf, "\nSuppressions used\n");
        first = false;
        cell_count(&w->doc.buf, s->list.at[i].count, 11);
        cell(&w->doc.buf, format_bytes(text, s->list.at[i].bytes), 9);
        buf_puts(&w->doc.buf, "  ");
        format_terminal(&w->doc.buf, view_of(s->list.at[i].pattern));
        buf_puts(&w->doc.buf, "\n");
    }
}

static void json_leaks_head(struct writer *w, const struct leaks *l, const struct suppressions *s)
{
    document_open(&w->doc, "tidemark.leaks/1");
    document_member(&w->doc, "trace", document_trace(w->s->trace));
    document_member(&w->doc, "begin_ns", json_integer(l->begin));
    document_member(&w->doc, "end_ns", json_integer(l->end));
    json_t *totals = json_object();
    for (int i = 0; i < LEAK_KINDS && totals; i++) {
        json_t *one = json_pack("{s:o, s:o}", "count", json_count(l->count[i]), "bytes",
                                json_count(l->bytes[i]));
        totals = json_with(totals, leak_kind_name((enum leak_kind)i), one);
    }
    document_member(&w->doc, "totals", totals);
    document_list(&w->doc, "suppressed");
    for (size_t i = 0; s && i < s->list.len; i++)
        document_element(&w->doc, json_pack("{s:o, s:o, s:o}", "pattern",
                                            json_text(view_of(s->list.at[i].pattern)), "count",
                                            json_count(s->list.at[i].count), "bytes",
                                            json_count(s->list.at[i].bytes)));
    document_list_end(&w->doc);
    document_list(&w->doc, "leaks");
}

static void json_leak(struct writer *w, const struct leak_row *r)
{
    bool told = r->spread >= 3;
    document_element(
        &w->doc,
        join(make_site(w, &r->frame, r->pool, r->callstack),
             json_pack("{s:s, s:s?, s:f, s:o, s:o, s:o, s:I, s:I, s:o, s:o, s:o}", "kind",
                       leak_kind_name(r->kind), "confidence", leak_confidence_name(r->confidence),
                       "never_freed", (double)r->count / (double)r->allocations, "live_count",
                       json_count(r->count), "live_bytes", json_count(r->bytes), "count",
                       json_count(r->allocations), "first_ns", (json_int_t)r->first, "last_ns",
                       (json_int_t)r->last, "bytes_per_second",
                       told ? json_real(r->rate) : json_null(), "z",
                       told ? json_real(r->z) : json_null(), "p",
                       told ? json_real(r->p) : json_null())));
}

static void csv_leak(struct writer *w, const struct leak_row *r)
{
    struct buf *b = &w->doc.buf;
    buf_printf(b, "%s,", leak_kind_name(r->kind));
    csv_where(w, &r->frame, r->no_callstack, r->pool);
    buf_printf(b, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRId64 ",%" PRId64, r->count, r->bytes,
               r->allocations, r->first, r->last);
    if (r->spread >= 3)
        buf_printf(b, ",%.6g,%.4f,%.4g", r->rate, r->z, r->p);
    else
        buf_puts(b, ",,,");
    const char *confidence = leak_confidence_name(r->confidence);
    buf_printf(b, ",%s\n", confidence ? confidence : "");
}

int leaks_write(const struct leaks *l, const struct selection *s,
                const struct suppressions *suppress, const struct leak_report_options *options,
                FILE *out, struct err *e)
{
    struct writer w = {.s = s, .options = options, .doc = document_begin(out)};
    size_t n = rows_shown(l->rows.len, options->limit);
    if (options->format == REPORT_TEXT)
        text_leaks_head(&w, l);
    else if (options->format == REPORT_JSON)
        json_leaks_head(&w, l, suppress);
    else
        buf_puts(&w.doc.buf, "kind,pool,function,file,line,image,live_count,live_bytes,count,"
                             "first_ns,last_ns,bytes_per_second,z,p,confidence\n");
    for (size_t i = 0; i < n; i++) {
        const struct leak_row *r = &l->rows.at[i];
        if (options->format == REPORT_JSON) {
            json_leak(&w, r);
        } else if (options->format == REPORT_CSV) {
            csv_leak(&w, r);
        } else {
            if (i == 0 || r->kind != r[-1].kind)
                text_kind(&w, r->kind);
            text_leak(&w, r);
        }
        document_flush(&w.doc);
    }
    if (options->format == REPORT_TEXT) {
        text_cut(&w, l->rows.len);
        text_suppressions(&w, suppress);
    } else if (options->format == REPORT_JSON) {
        document_list_end(&w.doc);
        document_close(&w.doc);
    }
    return document_end(&w.doc, e);
}

/* ---- growth */

static void cell_change(struct buf *b, uint64_t before, uint64_t after, bool is_bytes, size_t width)
{
    char number[FORMAT_SIZE];
    char text[FORMAT_SIZE + 2];
    uint64_t by = after > before ? after - before : before - after;
    snprintf(text, sizeof text, "%s%s",
             after > before   ? "+"
             : after < before ? "-"
                              : "",
             is_bytes ? format_bytes(number, by) : format_count(number, by));
    cell(b, text, width);
}

static void text_growth_head(struct writer *w, const struct growth *g)
{
    char a[FORMAT_SIZE];
    char c[FORMAT_SIZE];
    struct buf *b = &w->doc.buf;
    buf_printf(b, "from %s to ", g->from < 0 ? "the beginning" : format_duration(a, g->from));
    buf_printf(b, "%s: ", format_duration(a, g->to));
    buf_printf(b, "%s to ", format_bytes(a, g->bytes_before));
    buf_printf(b, "%s in ", format_bytes(a, g->bytes_after));
    buf_printf(b, "%s to %s\n", format_count(a, g->count_before),
               format_counted(c, g->count_after, "block"));
    if (g->rows.len == 0)
        return;
    buf_puts(b, "\n");
    static const char *const titles[] = {"Growth", "Before",    "After",
                                         "Blocks", "Allocated", "Freed"};
    static const size_t widths[] = {10, 9, 9, 11, 11, 11};
    for (size_t i = 0; i < sizeof titles / sizeof *titles; i++)
        cell(b, titles[i], widths[i]);
    buf_puts(b, "  Source location\n");
}

static void text_grown(struct writer *w, const struct growth_row *r)
{
    struct buf *b = &w->doc.buf;
    cell_change(b, r->bytes_before, r->bytes_after, true, 10);
    cell_bytes(b, r->bytes_before, 9);
    cell_bytes(b, r->bytes_after, 9);
    cell_change(b, r->count_before, r->count_after, false, 11);
    cell_count(b, r->allocations, 11);
    cell_count(b, r->frees, 11);
    text_name(w, &r->frame, r->no_callstack, r->pool);
    text_stack(w, r->callstack);
}

static json_t *make_change(uint64_t count_before, uint64_t bytes_before, uint64_t count_after,
                           uint64_t bytes_after)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:I}", "count_before", json_count(count_before),
                     "bytes_before", json_count(bytes_before), "count_after",
                     json_count(count_after), "bytes_after", json_count(bytes_after), "growth",
                     (json_int_t)growth_of(bytes_before, bytes_after));
}

static void json_grown(struct writer *w, const struct growth_row *r)
{
    json_t *site =
        join(make_site(w, &r->frame, r->pool, r->callstack),
             make_change(r->count_before, r->bytes_before, r->count_after, r->bytes_after));
    document_element(&w->doc,
                     join(site, json_pack("{s:o, s:o}", "allocations", json_count(r->allocations),
                                          "frees", json_count(r->frees))));
}

int growth_write(const struct growth *g, const struct selection *s,
                 const struct leak_report_options *options, FILE *out, struct err *e)
{
    struct writer w = {.s = s, .options = options, .doc = document_begin(out)};
    size_t n = rows_shown(g->rows.len, options->limit);
    if (options->format == REPORT_TEXT) {
        text_growth_head(&w, g);
    } else if (options->format == REPORT_JSON) {
        document_open(&w.doc, "tidemark.grown/1");
        document_member(&w.doc, "trace", document_trace(s->trace));
        document_member(&w.doc, "from_ns", json_integer(g->from));
        document_member(&w.doc, "to_ns", json_integer(g->to));
        document_member(
            &w.doc, "total",
            make_change(g->count_before, g->bytes_before, g->count_after, g->bytes_after));
        document_list(&w.doc, "sites");
    } else {
        buf_puts(&w.doc.buf, "pool,function,file,line,image,growth,bytes_before,bytes_after,"
                             "count_before,count_after,allocations,frees\n");
    }
    for (size_t i = 0; i < n; i++) {
        const struct growth_row *r = &g->rows.at[i];
        if (options->format == REPORT_TEXT) {
            text_grown(&w, r);
        } else if (options->format == REPORT_JSON) {
            json_grown(&w, r);
        } else {
            csv_where(&w, &r->frame, r->no_callstack, r->pool);
            buf_printf(&w.doc.buf,
                       ",%" PRId64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64
                       ",%" PRIu64 "\n",
                       growth_of(r->bytes_before, r->bytes_after), r->bytes_before, r->bytes_after,
                       r->count_before, r->count_after, r->allocations, r->frees);
        }
        document_flush(&w.doc);
    }
    if (options->format == REPORT_TEXT) {
        text_cut(&w, g->rows.len);
    } else if (options->format == REPORT_JSON) {
        document_list_end(&w.doc);
        document_close(&w.doc);
    }
    return document_end(&w.doc, e);
}
