#include "report/patterns_report.h"

#include "base/saturate.h"
#include "report/write/markdown_table.h"
#include "report/write/row_table.h"

/* ---- columns */

static const struct pattern_row *pattern_of(const void *row)
{
    return row;
}

static bool has_one_size(const void *row)
{
    return pattern_of(row)->only_size != 0;
}

static void get_grows(struct row_value *v, const void *row)
{
    v->n = pattern_grows(row);
}

static void get_never_grew(struct row_value *v, const void *row)
{
    v->n = pattern_never_grew(row);
}

static void get_temporary_share(struct row_value *v, const void *row)
{
    v->n = pattern_of(row)->temporary;
    v->whole = pattern_of(row)->count;
}

static void get_brief_share(struct row_value *v, const void *row)
{
    v->n = pattern_of(row)->brief;
    v->whole = pattern_of(row)->count;
}

static uint64_t mean_of_brief(const void *row, uint64_t sum)
{
    uint64_t n = pattern_of(row)->brief;
    return n ? sum / n : 0;
}

static void get_brief_allocations(struct row_value *v, const void *row)
{
    v->n = mean_of_brief(row, pattern_of(row)->brief_allocations);
}

static void get_brief_time(struct row_value *v, const void *row)
{
    v->ns = (int64_t)mean_of_brief(row, pattern_of(row)->brief_time);
}

static void get_waste_share(struct row_value *v, const void *row)
{
    v->n = pattern_of(row)->waste;
    v->whole = saturating_add(pattern_of(row)->bytes, pattern_of(row)->waste);
}

static void get_mean(struct row_value *v, const void *row)
{
    v->n = pattern_of(row)->count ? pattern_of(row)->bytes / pattern_of(row)->count : 0;
}

#define COLUMN(KEY, KIND, MEMBER) KEY, KIND, .offset = offsetof(struct pattern_row, MEMBER)

static const struct row_column columns[] = {
    SITE_COLUMNS(struct pattern_row),
    {COLUMN("count", VALUE_COUNT, count)},
    {COLUMN("bytes", VALUE_BYTES, bytes)},
    {COLUMN("largest", VALUE_BYTES, largest)},
    {COLUMN("live_bytes", VALUE_BYTES, live_bytes)},
    {COLUMN("peak_bytes", VALUE_BYTES, peak_bytes)},
    {COLUMN("only_size", VALUE_BYTES, only_size)},
    {COLUMN("one_size", VALUE_BYTES, only_size), .known = has_one_size},
    {"grows", VALUE_FLAG, .get = get_grows},
    {"never_grown", VALUE_FLAG, .get = get_never_grew},
    {COLUMN("chains", VALUE_COUNT, chains)},
    {COLUMN("grown", VALUE_COUNT, grown)},
    {COLUMN("copied_bytes", VALUE_BYTES, copied)},
    {COLUMN("longest_chain", VALUE_COUNT, longest)},
    {COLUMN("steps_down", VALUE_COUNT, down)},
    {COLUMN("given_back_bytes", VALUE_BYTES, given_back)},
    {COLUMN("temporary", VALUE_COUNT, temporary)},
    {COLUMN("temporary_bytes", VALUE_BYTES, temporary_bytes)},
    {COLUMN("longest_run", VALUE_COUNT, longest_run)},
    {COLUMN("short_lived", VALUE_COUNT, brief)},
    {COLUMN("short_lived_bytes", VALUE_BYTES, brief_bytes)},
    {"short_lived_allocations", VALUE_COUNT, .get = get_brief_allocations},
    {"short_lived_ns", VALUE_TIME, .get = get_brief_time},
    {"short_lived_share", VALUE_SHARE, .get = get_brief_share},
    {COLUMN("glibc_waste_bytes", VALUE_BYTES, waste)},
    {COLUMN("glibc_waste_peak_bytes", VALUE_BYTES, peak_waste)},
    {"temporary_share", VALUE_SHARE, .get = get_temporary_share},
    {"waste_share", VALUE_SHARE, .get = get_waste_share},
    {"mean", VALUE_BYTES, .get = get_mean},
    {0},
};

static const struct row_table rows = {
    .columns = columns,
    .json = "pool|site|count|bytes|largest|live_bytes|peak_bytes|one_size=only_size|never_grown"
            "|grows=growth.told|chains=growth.chains|grown=growth.steps"
            "|copied_bytes=growth.copied_bytes|longest_chain=growth.longest"
            "|steps_down=growth.steps_down|given_back_bytes=growth.given_back_bytes"
            "|temporary=temporary.count|temporary_bytes=temporary.bytes"
            "|longest_run=temporary.longest_run|short_lived=short_lived.count"
            "|short_lived_bytes=short_lived.bytes"
            "|short_lived_allocations=short_lived.mean_allocations"
            "|short_lived_ns=short_lived.mean_ns|glibc_waste_bytes=glibc_waste.bytes"
            "|glibc_waste_peak_bytes=glibc_waste.peak_bytes|callstack",
    .csv = "pool|site|count|bytes|largest|live_bytes|peak_bytes|only_size|chains|grown|copied_bytes"
           "|longest_chain|steps_down|given_back_bytes|temporary|temporary_bytes|longest_run"
           "|glibc_waste_bytes|glibc_waste_peak_bytes|short_lived|short_lived_bytes"
           "|short_lived_allocations|short_lived_ns",
};

/* ---- tables of text and Markdown */

/* A single temporary block is not worth a row. */
static bool has_loops(const struct pattern_row *r)
{
    return r->longest_run > 1;
}

static bool has_waste(const struct pattern_row *r)
{
    return r->peak_waste != 0;
}

static const struct pattern_table {
    const char *title;
    enum pattern_order order;
    bool (*wants)(const struct pattern_row *r);
    struct row_table table;
} tables[] = {
    {"Grow by copying",
     PATTERN_BY_COPIED,
     pattern_grows,
     {.columns = columns,
      .text = "copied_bytes=Copied:11|grown=Steps:11|chains=Chains:11|longest_chain=Longest:11"
              "|largest=Largest:11|given_back_bytes=Given back:11|site=Source location|pool",
      .markdown = "site=Where|pool=Pool|copied_bytes=>Copied|grown=>Steps|chains=>Chains"
                  "|longest_chain=>Longest|largest=>Largest|given_back_bytes=>Given back"}},
    {"Temporary blocks one after the other",
     PATTERN_BY_TEMPORARY,
     has_loops,
     {.columns = columns,
      .text = "temporary=Temporary:11|temporary_share=Of all:11|longest_run=In a row:11"
              "|temporary_bytes=Size:11|site=Source location|pool",
      .markdown = "site=Where|pool=Pool|temporary=>Temporary|temporary_share=>Of all"
                  "|longest_run=>In a row|temporary_bytes=>Size"}},
    {"Short-lived blocks between others",
     PATTERN_BY_BRIEF,
     pattern_is_brief,
     {.columns = columns,
      .text = "short_lived=Short-lived:11|short_lived_share=Of all:11"
              "|short_lived_allocations=Allocs over:11|short_lived_ns=Mean life:11"
              "|short_lived_bytes=Size:11|site=Source location|pool",
      .markdown = "site=Where|pool=Pool|short_lived=>Short-lived|short_lived_share=>Of all"
                  "|short_lived_allocations=>Allocations over|short_lived_ns=>Mean life"
                  "|short_lived_bytes=>Size"}},
    {"Large, of one size, and never grown",
     PATTERN_BY_PEAK,
     pattern_never_grew,
     {.columns = columns,
      .text = "only_size=Size each:11|count=Count:11|peak_bytes=Peak:11|live_bytes=Live size:11"
              "|site=Source location|pool",
      .markdown = "site=Where|pool=Pool|only_size=>Size each|count=>Count|peak_bytes=>Peak"
                  "|live_bytes=>Live"}},
    {"Room that glibc's malloc would add",
     PATTERN_BY_WASTE,
     has_waste,
     {.columns = columns,
      .text = "glibc_waste_peak_bytes=At most:11|waste_share=Of all:11|count=Count:11"
              "|mean=Mean size:11|site=Source location|pool",
      .markdown = "site=Where|pool=Pool|glibc_waste_peak_bytes=>At most|count=>Count"
                  "|mean=>Mean size"}},
};

static void write_table(struct document *d, struct patterns *p, const struct selection *s,
                        const struct pattern_table *t, const struct leak_report_options *o)
{
    bool text = o->format == REPORT_TEXT;
    struct row_writer w = row_writer(d, &t->table, s, o->format, o->stack_traces);
    size_t shown = 0;
    size_t all = 0;
    patterns_sort(p, t->order);
    for (size_t i = 0; i < p->rows.len; i++) {
        const struct pattern_row *r = &p->rows.at[i];
        if (!t->wants(r) || (all++, o->limit && shown == o->limit))
            continue;
        if (shown++ == 0) {
            /* `first`: there is no text above */
            buf_printf(&d->buf, text ? "%s%s\n" : "%s**%s**\n\n", text && d->first ? "" : "\n",
                       t->title);
            row_titles(&w);
        }
        row_write(&w, r);
        d->first = false;
    }
    rows_end(&w, shown, all, "more site");
}

static void write_tables(struct document *d, struct patterns *p, const struct selection *s,
                         const struct leak_report_options *o)
{
    d->first = p->rows.len != 0;
    if (o->format == REPORT_MARKDOWN)
        markdown_title(d, "What sites do with their blocks in", s->trace, &s->options);
    if (p->rows.len == 0)
        buf_puts(&d->buf, o->format == REPORT_TEXT ? "no allocations\n" : "No allocations.\n");
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        write_table(d, p, s, &tables[i], o);
    if (p->by_callstack && p->rows.len)
        buf_puts(&d->buf,
                 "\nfigures only, no events: growth and runs are within one call stack, and "
                 "the highest waste of a site is at most what is shown\n");
}

int patterns_write(struct patterns *p, const struct selection *s,
                   const struct leak_report_options *options, FILE *out, struct err *e)
{
    struct document d = document_begin(out);
    patterns_sort(p, PATTERN_BY_BYTES);
    if (options->format == REPORT_TEXT || options->format == REPORT_MARKDOWN) {
        write_tables(&d, p, s, options);
        return document_end(&d, e);
    }
    struct row_writer w = row_writer(&d, &rows, s, options->format, false);
    if (options->format == REPORT_JSON) {
        document_begin_json(&d, "tidemark.patterns/1", s->trace);
        if (p->by_callstack)
            document_member(&d, "by_callstack", json_true());
        document_list(&d, "sites");
    }
    row_titles(&w);
    rows_write(&w, p->rows.at, rows_shown(p->rows.len, options->limit), sizeof *p->rows.at);
    rows_end(&w, 0, 0, "");
    return document_end(&d, e);
}
