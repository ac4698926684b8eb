/* What grew between two times, as text, JSON ("tidemark.grown/1"), CSV or Markdown. */

#include "base/format.h"
#include "report/leaks_report.h"
#include "report/write/markdown_table.h"
#include "report/write/row_table.h"

static void get_growth(struct row_value *v, const void *row)
{
    const struct growth_row *r = row;
    v->n = r->bytes_before;
    v->whole = r->bytes_after;
}

static void get_blocks(struct row_value *v, const void *row)
{
    const struct growth_row *r = row;
    char count[FORMAT_SIZE];
    int64_t by = growth_of(r->count_before, r->count_after);
    snprintf(v->room, sizeof v->room, "%s%s",
             by > 0   ? "+"
             : by < 0 ? "-"
                      : "",
             format_count(count, (uint64_t)(by < 0 ? -by : by)));
    v->word = v->room;
}

#define COLUMN(KEY, KIND, MEMBER) KEY, KIND, .offset = offsetof(struct growth_row, MEMBER)

static const struct row_column columns[] = {
    SITE_COLUMNS(struct growth_row),
    {COLUMN("count_before", VALUE_COUNT, count_before)},
    {COLUMN("bytes_before", VALUE_BYTES, bytes_before)},
    {COLUMN("count_after", VALUE_COUNT, count_after)},
    {COLUMN("bytes_after", VALUE_BYTES, bytes_after)},
    {"growth", VALUE_CHANGE, .get = get_growth},
    {"blocks", VALUE_WORD, .get = get_blocks},
    {COLUMN("allocations", VALUE_COUNT, allocations)},
    {COLUMN("frees", VALUE_COUNT, frees)},
    {0},
};

static const struct row_table table = {
    .columns = columns,
    .text = "growth=Growth:10|bytes_before=Before:9|bytes_after=After:9|blocks=Blocks:11"
            "|allocations=Allocated:11|frees=Freed:11|site=Source location|pool",
    .json = "pool|site|callstack|count_before|bytes_before|count_after|bytes_after|growth"
            "|allocations|frees",
    .csv = "pool|site|growth|bytes_before|bytes_after|count_before|count_after|allocations|frees",
    .markdown = "site=Where|pool=Pool|growth=>Growth|bytes_before=>Before|bytes_after=>After"
                "|blocks=>Blocks|allocations=>Allocated|frees=>Freed",
};

static void text_head(struct buf *b, const struct growth *g)
{
    char a[FORMAT_SIZE];
    char c[FORMAT_SIZE];
    buf_printf(b, "from %s to ", g->from < 0 ? "the beginning" : format_duration(a, g->from));
    buf_printf(b, "%s: ", format_duration(a, g->to));
    buf_printf(b, "%s to ", format_bytes(a, g->bytes_before));
    buf_printf(b, "%s in ", format_bytes(a, g->bytes_after));
    buf_printf(b, "%s to %s\n", format_count(a, g->count_before),
               format_counted(c, g->count_after, "block"));
    if (g->rows.len)
        buf_puts(b, "\n");
}

static void markdown_head(struct buf *out, const struct growth *g)
{
    char a[FORMAT_SIZE];
    char b[FORMAT_SIZE];
    buf_printf(out, "From %s to ", g->from < 0 ? "the beginning" : format_duration(a, g->from));
    buf_printf(out, "%s: %s ", format_duration(a, g->to), format_bytes(b, g->bytes_before));
    buf_printf(out, "in %s ", format_counted(a, g->count_before, "block"));
    buf_printf(out, "became %s ", format_bytes(b, g->bytes_after));
    buf_printf(out, "in %s.\n\n", format_count(a, g->count_after));
}

static void json_head(struct document *d, const struct growth *g)
{
    document_member(d, "from_ns", json_integer(g->from));
    document_member(d, "to_ns", json_integer(g->to));
    document_member(d, "total",
                    json_pack("{s:o, s:o, s:o, s:o, s:I}", "count_before",
                              json_count(g->count_before), "bytes_before",
                              json_count(g->bytes_before), "count_after",
                              json_count(g->count_after), "bytes_after", json_count(g->bytes_after),
                              "growth", (json_int_t)growth_of(g->bytes_before, g->bytes_after)));
    document_list(d, "sites");
}

int growth_write(const struct growth *g, const struct selection *s,
                 const struct leak_report_options *options, FILE *out, struct err *e)
{
    struct document d = document_begin(out);
    struct row_writer w = row_writer(&d, &table, s, options->format, options->stack_traces);
    size_t n = rows_shown(g->rows.len, options->limit);
    if (w.format == REPORT_TEXT) {
        text_head(&d.buf, g);
    } else if (w.format == REPORT_JSON) {
        document_begin_json(&d, "tidemark.grown/1", s->trace);
        json_head(&d, g);
    } else if (w.format == REPORT_MARKDOWN) {
        markdown_title(&d, "What grew in", s->trace, &s->options);
        markdown_head(&d.buf, g);
    }
    if (n || w.format == REPORT_CSV)
        row_titles(&w);
    rows_write(&w, g->rows.at, n, sizeof *g->rows.at);
    rows_end(&w, n, g->rows.len, "more site");
    rows_stacks(&w, g->rows.at, n, sizeof *g->rows.at);
    return document_end(&d, e);
}
