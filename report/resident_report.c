#include "report/resident_report.h"

#include "analysis/questions/resident_findings.h"
#include "base/format.h"
#include "report/write/markdown_table.h"
#include "report/write/markup.h"
#include "report/write/resident_json.h"
#include "report/write/row_table.h"
#include "report/write/text_cells.h"

#define COLUMN(KEY, KIND, MEMBER) KEY, KIND, .offset = offsetof(struct resident_row, MEMBER)

static const struct row_column columns[] = {
    SITE_COLUMNS(struct resident_row),
    {COLUMN("resident_bytes", VALUE_BYTES, of.present)},
    {COLUMN("pinned_bytes", VALUE_BYTES, pinned)},
    {COLUMN("swapped_bytes", VALUE_BYTES, of.swapped)},
    {COLUMN("not_resident_bytes", VALUE_BYTES, of.absent)},
    {COLUMN("bytes", VALUE_BYTES, bytes)},
    {COLUMN("count", VALUE_COUNT, count)},
    {COLUMN("unsure_bytes", VALUE_BYTES, of.unsure)},
    {COLUMN("outside_bytes", VALUE_BYTES, of.outside)},
    {COLUMN("nested_bytes", VALUE_BYTES, nested.present)},
    {0},
};

#define FIGURES                                                                                    \
    "resident_bytes|pinned_bytes|swapped_bytes|not_resident_bytes|bytes|count|unsure_bytes"        \
    "|outside_bytes|nested_bytes"
#define TEXT                                                                                       \
    "resident_bytes=Resident:9|pinned_bytes=Pins:11|swapped_bytes=Swapped:9"                       \
    "|not_resident_bytes=Not resident:12|bytes=Live:10|count=Blocks:12"

static const struct row_table table = {
    .columns = columns,
    .text = TEXT "|site=Source location",
    .json = "pool|site|" FIGURES "|callstack",
    .csv = "pool|site|" FIGURES,
    .markdown = "site=Where|pool=Pool|resident_bytes=>Resident|pinned_bytes=>Pins"
                "|swapped_bytes=>Swapped|not_resident_bytes=>Not resident|bytes=>Live"
                "|count=>Blocks",
};

/* The call stacks of a site. */
static const struct row_table stack_table = {
    .columns = columns,
    .text = TEXT,
    .json = FIGURES "|callstack",
};

/* ---- before the rows */

static void text_looks(struct buf *out, const struct resident *r, const struct page_looks *all)
{
    char time[FORMAT_SIZE], bytes[FORMAT_SIZE];
    for (size_t i = 0; i < all->list.len && all->list.len > 1; i++) {
        const struct page_look *l = &all->list.at[i];
        buf_printf(out, "%sLook %zu: %s resident at %s, %s%s\n", i ? "" : "\n", i + 1,
                   format_bytes(bytes, resident_bytes(l)), format_duration(time, l->begin),
                   look_reason_name(l->reason), l == r->look ? ": this report" : "");
    }
}

static void text_within(struct buf *out, const struct resident *r, const struct selection *s)
{
    char n[FORMAT_SIZE];
    for (size_t i = 0; i < r->within.len; i++) {
        const struct resident_within *w = &r->within.at[i];
        buf_printf(out, "Counted once: %s of pool ", format_bytes(n, w->present));
        format_terminal(out, s->pools.at[w->pool].name);
        buf_puts(out, " lie in blocks of pool ");
        format_terminal(out, s->pools.at[w->keeper].name);
        buf_puts(out, ", which keep them\n");
    }
}

static void text_unread(struct buf *out, const struct page_look *l)
{
    char n[FORMAT_SIZE];
    uint64_t bytes = 0;
    for (size_t i = 0; i < l->areas.len; i++)
        bytes += l->areas.at[i].unread ? l->areas.at[i].end - l->areas.at[i].start : 0;
    if (bytes)
        buf_printf(out, "Not read, since they are too large: mappings of %s\n",
                   format_bytes(n, bytes));
}

/* ": FUNCTION (FILE:LINE)" of a finding about a site. */
static void put_finding_site(struct buf *out, const struct resident_finding *f)
{
    if (f->row)
        put_site(out, &f->row->frame, f->row->no_callstack);
}

static void text_findings(struct buf *out, const struct resident_findings *f)
{
    for (size_t i = 0; i < f->list.len; i++) {
        const struct resident_finding *one = &f->list.at[i];
        struct buf site = {0};
        put_finding_site(&site, one);
        buf_puts(out, i ? "  " : "\nFindings, and what usually helps\n  ");
        format_terminal(out, buf_view(&site));
        buf_puts(out, site.len ? ": " : "");
        finding_words(out, one);
        buf_printf(out, "\n      %s\n", finding_remedy(one->kind));
        buf_end(&site, &out->failed);
    }
}

static void text_beside(struct buf *out, const struct resident *r)
{
    char a[FORMAT_SIZE], b[FORMAT_SIZE];
    uint64_t overhead = r->shares.bytes[RESIDENT_OVERHEAD];
    uint64_t beside = overhead > r->empty ? overhead - r->empty : 0;
    bool reported = r->shares.reported;
    buf_printf(out, "%s: %s in pages beside blocks, %s in pages without any block%s\n",
               reported ? "In the mappings of blocks" : "Allocator", format_bytes(a, beside),
               format_bytes(b, r->empty),
               reported ? "; the program reports its blocks, so these bytes, and those that sites "
                          "pin, may be blocks that it does not report"
                        : "");
}

/* `narrow`: the shares of the process are not known. */
static void text_head(struct buf *out, const struct resident *r, const struct resident_findings *f,
                      const struct selection *s)
{
    const struct page_looks *all = &s->trace->looks;
    bool narrow = selection_is_narrow(&s->options);
    char a[FORMAT_SIZE], b[FORMAT_SIZE], c[FORMAT_SIZE];
    const struct resident_row *t = &r->total;
    if (narrow)
        buf_printf(out, "live at %s\n", format_duration(a, r->shares.time));
    else
        resident_words(out, &r->shares);
    buf_printf(out, "%sThe pages were read %s, in %s; the kernel counted %s\n", narrow ? "" : "\n",
               look_reason_name(r->look->reason), format_duration(a, r->look->end - r->look->begin),
               r->look->rss ? format_bytes(b, r->look->rss) : "an unknown size");
    buf_printf(out, "%s live (%s): %s resident", format_bytes(a, t->bytes),
               format_counted(b, t->count, "block"), format_bytes(c, t->of.present));
    buf_printf(out, ", %s swapped, %s not resident\n", format_bytes(a, t->of.swapped),
               format_bytes(b, t->of.absent));
    if (!narrow)
        text_beside(out, r);
    if (r->shares.unsure)
        buf_printf(out, "Not counted: %s of the zero page, or shared with a forked process\n",
                   format_bytes(a, r->shares.unsure));
    if (t->of.outside)
        buf_printf(out,
                   "Not counted: %s of blocks on a GPU, outside of the mappings that were read, or "
                   "that overlap others of their pool\n",
                   format_bytes(a, t->of.outside));
    text_within(out, r, s);
    if (r->recorder)
        buf_printf(out, "Among \"other\": %s of Tidemark's recording\n",
                   format_bytes(a, r->recorder));
    text_unread(out, r->look);
    text_looks(out, r, all);
    text_findings(out, f);
    buf_puts(out, "\n");
}

static void markdown_findings(struct document *d, const struct resident_findings *f)
{
    for (size_t i = 0; i < f->list.len; i++) {
        const struct resident_finding *one = &f->list.at[i];
        struct buf site = {0}, words = {0};
        put_finding_site(&site, one);
        finding_words(&words, one);
        buf_puts(&d->buf, "- ");
        if (site.len)
            markup_code(&d->buf, buf_view(&site));
        buf_puts(&d->buf, site.len ? ": " : "");
        markup_text(&d->buf, buf_view(&words));
        buf_puts(&d->buf, ". ");
        markup_text(&d->buf, view_of(finding_remedy(one->kind)));
        buf_puts(&d->buf, "\n");
        d->failed |= site.failed || words.failed;
        buf_release(&site);
        buf_release(&words);
    }
    buf_puts(&d->buf, f->list.len ? "\n" : "");
}

static void markdown_head(struct document *d, const struct resident *r,
                          const struct resident_findings *f, bool narrow)
{
    struct buf words = {0};
    if (!narrow)
        resident_words(&words, &r->shares);
    markup_text(&d->buf, buf_view(&words));
    buf_puts(&d->buf, narrow ? "" : "\n\n");
    buf_end(&words, &d->failed);
    markdown_findings(d, f);
}

static json_t *json_finding(const struct trace *t, const struct resident_finding *f)
{
    struct buf site = {0}, words = {0};
    put_finding_site(&site, f);
    finding_words(&words, f);
    json_t *v = json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:s}", "kind", finding_key(f->kind),
                          "bytes", json_count(f->bytes), "count", json_count(f->count), "site",
                          json_text_or_null(buf_view(&site)), "callstack",
                          json_callstack(t, f->row ? f->row->callstack : 0), "text",
                          json_text(buf_view(&words)), "remedy", finding_remedy(f->kind));
    bool failed = site.failed || words.failed;
    buf_release(&site);
    buf_release(&words);
    if (!failed)
        return v;
    json_decref(v);
    return NULL;
}

static json_t *json_findings(const struct trace *t, const struct resident_findings *f)
{
    json_t *list = json_array();
    for (size_t i = 0; i < f->list.len; i++)
        list = json_add(list, json_finding(t, &f->list.at[i]));
    return list;
}

static json_t *json_looks(const struct page_looks *all)
{
    json_t *list = json_array();
    for (size_t i = 0; i < all->list.len; i++) {
        const struct page_look *l = &all->list.at[i];
        list = json_add(list, json_pack("{s:I, s:s, s:o}", "time_ns", (json_int_t)l->begin,
                                        "reason", look_reason_name(l->reason), "bytes",
                                        json_count(resident_bytes(l))));
    }
    return list;
}

static json_t *json_within(const struct resident *r, const struct selection *s)
{
    json_t *list = json_array();
    for (size_t i = 0; i < r->within.len; i++) {
        const struct resident_within *w = &r->within.at[i];
        list = json_add(list,
                        json_pack("{s:o, s:o, s:o}", "pool", json_text(s->pools.at[w->pool].name),
                                  "kept_by", json_text(s->pools.at[w->keeper].name),
                                  "resident_bytes", json_count(w->present)));
    }
    return list;
}

static void json_head(struct document *d, const struct resident *r,
                      const struct resident_findings *f, const struct selection *s)
{
    const struct trace *t = s->trace;
    bool narrow = selection_is_narrow(&s->options);
    document_member(d, "resident", narrow ? json_null() : resident_json(&r->shares));
    document_member(d, "look_ns", json_integer(r->look->end - r->look->begin));
    document_member(d, "empty_page_bytes", narrow ? json_null() : json_count(r->empty));
    document_member(d, "recorder_bytes", json_count(r->recorder));
    document_member(d, "huge_page_bytes", json_count(r->look->huge));
    document_member(d, "arena_heaps", narrow ? json_null() : json_count(r->arenas.heaps));
    document_member(d, "look", json_integer(r->look - t->looks.list.at + 1));
    document_member(d, "looks", json_looks(&t->looks));
    document_member(d, "total",
                    json_pack("{s:o, s:o, s:o, s:o}", "bytes", json_count(r->total.bytes),
                              "resident_bytes", json_count(r->total.of.present), "swapped_bytes",
                              json_count(r->total.of.swapped), "not_resident_bytes",
                              json_count(r->total.of.absent)));
    document_member(d, "within", json_within(r, s));
    document_member(d, "findings", json_findings(t, f));
    document_list(d, "sites");
}

static void write_head(struct row_writer *w, const struct resident *r,
                       const struct resident_findings *f)
{
    if (w->format == REPORT_TEXT) {
        text_head(&w->doc->buf, r, f, w->s);
    } else if (w->format == REPORT_JSON) {
        document_begin_json(w->doc, "tidemark.resident/1", w->s->trace);
        json_head(w->doc, r, f, w->s);
    } else if (w->format == REPORT_MARKDOWN) {
        markdown_title(w->doc, "Resident memory of", w->s->trace, &w->s->options);
        markdown_head(w->doc, r, f, selection_is_narrow(&w->s->options));
    }
}

/* ---- rows */

static void text_stack(struct row_writer *w, const struct resident_row *stack)
{
    struct frame_walk walk = frame_walk_start(w->s->trace, stack->callstack);
    struct frame_view f;
    row_cells(w, stack);
    buf_puts(&w->doc->buf, "  of these, from\n");
    while (frame_walk_next(&walk, &f))
        put_stack_line(&w->doc->buf, &f, 11);
}

static json_t *json_stacks(struct row_writer *w, const struct resident_row *at, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        list = json_add(list, row_json(w, &at[i]));
    return list;
}

/* `stacks`: with the call stacks of the site. */
static void write_row(struct row_writer *w, const struct resident *r,
                      const struct resident_row *row, bool stacks)
{
    const struct resident_row *first = r->stacks.at + row->first_stack;
    struct row_writer inner = row_writer(w->doc, &stack_table, w->s, w->format, false);
    if (w->format == REPORT_JSON) {
        json_t *list = stacks ? json_stacks(&inner, first, row->stack_count) : json_null();
        document_element(w->doc, json_with(row_json(w, row), "stacks", list));
        document_flush(w->doc);
        return;
    }
    row_write(w, row);
    for (size_t i = 0; i < row->stack_count && stacks; i++)
        text_stack(&inner, &first[i]);
}

int resident_write(const struct resident *r, const struct selection *s,
                   const struct leak_report_options *options, FILE *out, struct err *e)
{
    struct resident_findings findings;
    if (resident_findings_make(&findings, r, s->trace, selection_is_narrow(&s->options), e) != 0)
        return -1;
    struct document d = document_begin(out);
    bool markdown = options->format == REPORT_MARKDOWN;
    struct row_writer w =
        row_writer(&d, &table, s, options->format, options->stack_traces && markdown);
    size_t first = (size_t)options->first, left = r->rows.len - first;
    size_t n = rows_shown(left, options->limit);
    const struct resident_row *rows = n ? &r->rows.at[first] : NULL;
    write_head(&w, r, &findings);
    resident_findings_release(&findings);
    row_titles(&w);
    if (options->format == REPORT_TEXT || options->format == REPORT_JSON) {
        for (size_t i = 0; i < n; i++)
            write_row(&w, r, &r->rows.at[first + i], options->stack_traces);
    } else {
        rows_write(&w, rows, n, sizeof *rows);
    }
    rows_end(&w, n, left, "more site");
    rows_stacks(&w, rows, n, sizeof *rows);
    return document_end(&d, e);
}
