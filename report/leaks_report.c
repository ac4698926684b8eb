#include "report/leaks_report.h"

#include <math.h>
#include <stdio.h>

#include "base/format.h"
#include "report/write/markdown_table.h"
#include "report/write/markup.h"
#include "report/write/row_table.h"
#include "report/write/text_cells.h"

/* ---- columns */

static const struct leak_row *leak_of(const void *row)
{
    return row;
}

static bool has_trend(const void *row)
{
    return leak_of(row)->spread >= 3;
}

static void get_kind(struct row_value *v, const void *row)
{
    v->word = leak_kind_name(leak_of(row)->kind);
}

static void get_confidence(struct row_value *v, const void *row)
{
    v->word = leak_confidence_name(leak_of(row)->confidence);
}

static void get_never_freed(struct row_value *v, const void *row)
{
    v->n = leak_of(row)->count;
    v->whole = leak_of(row)->allocations;
}

static void put_rate(struct row_value *v, double rate, double round)
{
    char bytes[FORMAT_SIZE];
    double size = fabs(rate) < 1.8e19 ? fabs(rate) : 1.8e19;
    snprintf(v->room, sizeof v->room, "%s%s/s",
             rate < 0   ? "-"
             : rate > 0 ? "+"
                        : "",
             format_bytes(bytes, (uint64_t)(size + round)));
    v->word = v->room;
}

static void get_rate(struct row_value *v, const void *row)
{
    if (has_trend(row) && fabs(leak_of(row)->rate) >= 0.5)
        put_rate(v, leak_of(row)->rate, 0);
}

static void get_growth(struct row_value *v, const void *row)
{
    if (leak_of(row)->kind == LEAK_GROWING)
        put_rate(v, leak_of(row)->rate, 0.5);
}

static void get_rise(struct row_value *v, const void *row)
{
    const struct leak_row *r = leak_of(row);
    char bytes[FORMAT_SIZE];
    if (r->kind != LEAK_GROWING || !(r->rate >= 1 && r->rate < 0x1p63))
        return;
    snprintf(v->room, sizeof v->room, "%s/s", format_bytes(bytes, (uint64_t)r->rate));
    v->word = v->room;
}

#define COLUMN(KEY, KIND, MEMBER) KEY, KIND, .offset = offsetof(struct leak_row, MEMBER)

static const struct row_column leak_columns[] = {
    SITE_COLUMNS(struct leak_row),
    {"kind", VALUE_WORD, .get = get_kind},
    {"confidence", VALUE_WORD, .get = get_confidence},
    {"never_freed", VALUE_SHARE, .get = get_never_freed},
    {COLUMN("live_count", VALUE_COUNT, count)},
    {COLUMN("live_bytes", VALUE_BYTES, bytes)},
    {COLUMN("count", VALUE_COUNT, allocations)},
    {COLUMN("first_ns", VALUE_TIME, first)},
    {COLUMN("last_ns", VALUE_TIME, last)},
    {COLUMN("bytes_per_second", VALUE_REAL, rate), .known = has_trend},
    {COLUMN("z", VALUE_REAL, z), .known = has_trend, .text = {'f', 1}, .csv = {'f', 4}},
    {COLUMN("p", VALUE_REAL, p), .known = has_trend, .csv = {'g', 4}},
    {"rate", VALUE_WORD, .get = get_rate},
    {"growth", VALUE_WORD, .get = get_growth},
    {"rise", VALUE_WORD, .get = get_rise},
    {0},
};

static const struct row_table leak_table = {
    .columns = leak_columns,
    .text = "live_bytes=Live size:9|live_count=Live:11|never_freed=Never freed:13|first_ns=First:12"
            "|last_ns=Last:12|rate=Rate:12|z=z:5|confidence=Confidence:12|site=Source location"
            "|pool",
    .json = "pool|site|callstack|kind|confidence|never_freed|live_count|live_bytes|count|first_ns"
            "|last_ns|bytes_per_second|z|p",
    .csv = "kind|pool|site|live_count|live_bytes|count|first_ns|last_ns|bytes_per_second|z|p"
           "|confidence",
    .markdown = "kind=Kind|confidence=Confidence|site=Where|pool=Pool|live_count=>Blocks"
                "|never_freed=>Never freed|live_bytes=>Size|first_ns=>First|last_ns=>Last"
                "|growth=>Growth",
};

static const struct row_table short_table = {
    .columns = leak_columns,
    .markdown = "kind=|site=Where|pool=Pool|live_count=>Blocks|live_bytes=>Size|rise=>Growth"};

void leaks_short_table(struct document *d, const struct leaks *l, const struct selection *s,
                       size_t n)
{
    struct row_writer w = row_writer(d, &short_table, s, REPORT_MARKDOWN, false);
    row_titles(&w);
    rows_write(&w, l->rows.at, n, sizeof *l->rows.at);
    rows_end(&w, n, l->rows.len, "more site");
}

/* ---- before and after the rows */

static const char *const kind_titles[] = {
    [LEAK_GROWING] = "Never freed and still growing",
    [LEAK_HELD] = "Live at the end, without measurable growth",
    [LEAK_AT_START] = "Allocated once at the start",
};

static void markdown_head(struct buf *out, const struct leaks *l)
{
    char a[FORMAT_SIZE];
    char b[FORMAT_SIZE];
    uint64_t count;
    uint64_t bytes;
    leaks_total(l, &count, &bytes);
    if (count == 0) {
        buf_puts(out, l->left_count ? "Nothing is live at the end.\n" : "Every block was freed.\n");
    } else {
        buf_printf(out, "%s, %s; ", format_counted(a, count, "block"), format_bytes(b, bytes));
        buf_printf(out, "growing: %s, ", format_counted(a, l->count[LEAK_GROWING], "block"));
        buf_printf(out, "%s.\n", format_bytes(b, l->bytes[LEAK_GROWING]));
    }
    if (l->suppressed_count)
        buf_printf(out, "Suppressed: %s, %s.\n", format_counted(a, l->suppressed_count, "block"),
                   format_bytes(b, l->suppressed_bytes));
    if (l->left_count)
        buf_printf(out, "Freed by the end of a process only: %s, %s.\n",
                   format_counted(a, l->left_count, "block"), format_bytes(b, l->left_bytes));
    if (l->heap.p) {
        buf_puts(out, "Objects in the heap of ");
        markup_text(out, l->heap);
        buf_puts(out, " were not recorded.\n");
    }
    buf_puts(out, "\n");
}

static void text_suppressions(struct buf *b, const struct suppressions *s)
{
    char text[FORMAT_SIZE];
    bool first = true;
    for (size_t i = 0; s && i < s->list.len; i++) {
        if (s->list.at[i].count == 0)
            continue;
        if (first)
            buf_puts(b, "\nSuppressions used\n");
        first = false;
        cell_count(b, s->list.at[i].count, 11);
        cell(b, format_bytes(text, s->list.at[i].bytes), 9);
        buf_puts(b, s->list.at[i].built_in ? "  built-in: " : "  ");
        format_terminal(b, view_of(s->list.at[i].pattern));
        buf_puts(b, "\n");
    }
}

static void markdown_suppressions(struct document *d, const struct suppressions *s)
{
    bool any = false;
    for (size_t i = 0; s && i < s->list.len; i++) {
        const struct suppression *one = &s->list.at[i];
        if (one->count == 0)
            continue;
        if (!any)
            buf_puts(&d->buf, "\n");
        if (!any)
            markdown_columns(d, "Suppression|>Blocks|>Size");
        any = true;
        if (one->built_in)
            markdown_text(d, one->pattern);
        else
            markdown_code(d, view_of(one->pattern));
        markdown_count(d, one->count);
        markdown_bytes(d, one->bytes);
        markdown_row_end(d);
    }
}

static void json_head(struct document *d, const struct leaks *l, const struct suppressions *s)
{
    document_member(d, "begin_ns", json_integer(l->begin));
    document_member(d, "end_ns", json_integer(l->end));
    json_t *totals = json_object();
    for (int i = 0; i < LEAK_KINDS && totals; i++) {
        json_t *one = json_pack("{s:o, s:o}", "count", json_count(l->count[i]), "bytes",
                                json_count(l->bytes[i]));
        totals = json_with(totals, leak_kind_name((enum leak_kind)i), one);
    }
    totals = json_with(totals, "left_by_ended_processes",
                       json_pack("{s:o, s:o}", "count", json_count(l->left_count), "bytes",
                                 json_count(l->left_bytes)));
    document_member(d, "totals", totals);
    document_list(d, "suppressed");
    for (size_t i = 0; s && i < s->list.len; i++)
        document_element(d, json_pack("{s:o, s:b, s:o, s:o}", "pattern",
                                      json_text(view_of(s->list.at[i].pattern)), "built_in",
                                      s->list.at[i].built_in ? 1 : 0, "count",
                                      json_count(s->list.at[i].count), "bytes",
                                      json_count(s->list.at[i].bytes)));
    document_list_end(d);
}

static void write_head(struct row_writer *w, const struct leaks *l, const struct suppressions *s)
{
    struct document *d = w->doc;
    if (w->format == REPORT_TEXT) {
        leaks_put_head(l, &d->buf);
        buf_puts(&d->buf, "\n");
    } else if (w->format == REPORT_JSON) {
        document_begin_json(d, "tidemark.leaks/1", w->s->trace);
        json_head(d, l, s);
        document_list(d, "leaks");
    } else if (w->format == REPORT_MARKDOWN) {
        markdown_title(d, "What is never freed in", w->s->trace, &w->s->options);
        markdown_head(&d->buf, l);
    }
}

int leaks_write(const struct leaks *l, const struct selection *s,
                const struct suppressions *suppress, const struct leak_report_options *options,
                FILE *out, struct err *e)
{
    struct document d = document_begin(out);
    struct row_writer w = row_writer(&d, &leak_table, s, options->format, options->stack_traces);
    size_t n = rows_shown(l->rows.len, options->limit);
    write_head(&w, l, suppress);
    if (w.format == REPORT_CSV || (w.format == REPORT_MARKDOWN && n))
        row_titles(&w);
    for (size_t i = 0; i < n; i++) {
        const struct leak_row *r = &l->rows.at[i];
        if (w.format == REPORT_TEXT && (i == 0 || r->kind != r[-1].kind)) {
            buf_printf(&d.buf, "\n%s\n", kind_titles[r->kind]);
            row_titles(&w);
        }
        row_write(&w, r);
    }
    rows_end(&w, n, l->rows.len, "more site");
    if (w.format == REPORT_TEXT && l->count[LEAK_GROWING] == 0)
        buf_puts(&d.buf, "sites that grew and were freed: --grown\n");
    if (w.format == REPORT_TEXT)
        text_suppressions(&d.buf, suppress);
    else if (w.format == REPORT_MARKDOWN)
        markdown_suppressions(&d, suppress);
    rows_stacks(&w, l->rows.at, n, sizeof *l->rows.at);
    return document_end(&d, e);
}
