#include "report/patterns_report.h"

#include <inttypes.h>

#include "base/format.h"
#include "base/saturate.h"
#include "report/write/csv_field.h"
#include "report/write/document.h"
#include "report/write/text_cells.h"

struct writer {
    struct patterns *p;
    const struct selection *s;
    const struct leak_report_options *options;
    struct document doc;
};

static struct view pool_name(const struct writer *w, const struct pattern_row *r)
{
    return w->s->pools.at[r->pool].name;
}

/* ---- text */

static void text_name(struct writer *w, const struct pattern_row *r)
{
    struct buf name = {0};
    put_site(&name, &r->frame, r->no_callstack);
    buf_puts(&w->doc.buf, "  ");
    format_terminal(&w->doc.buf, buf_view(&name));
    w->doc.failed |= name.failed;
    buf_release(&name);
    if (w->s->pools.len > 1) {
        buf_puts(&w->doc.buf, "  pool ");
        format_terminal(&w->doc.buf, pool_name(w, r));
    }
    buf_puts(&w->doc.buf, "\n");
    struct frame_walk walk = frame_walk_start(w->s->trace, r->callstack);
    struct frame_view f;
    while (w->options->stack_traces && frame_walk_next(&walk, &f))
        put_stack_line(&w->doc.buf, &f, 11);
}

/* One of the tables: its rows, their order and its columns. */
struct table {
    const char *title;
    enum pattern_order order;
    bool (*wants)(const struct pattern_row *r);
    const char *columns[6]; /* each 11 wide; NULL: the end */
    void (*cells)(struct buf *b, const struct pattern_row *r);
};

#define WIDTH 11

static void cells_grown(struct buf *b, const struct pattern_row *r)
{
    cell_bytes(b, r->copied, WIDTH);
    cell_count(b, r->grown, WIDTH);
    cell_count(b, r->chains, WIDTH);
    cell_count(b, r->longest, WIDTH);
    cell_bytes(b, r->largest, WIDTH);
    cell_bytes(b, r->given_back, WIDTH);
}

/* A single temporary block is not worth a row. */
static bool has_loops(const struct pattern_row *r)
{
    return r->longest_run > 1;
}

static void cells_temporary(struct buf *b, const struct pattern_row *r)
{
    char text[FORMAT_SIZE];
    cell_count(b, r->temporary, WIDTH);
    cell(b, format_percent(text, r->temporary, r->count), WIDTH);
    cell_count(b, r->longest_run, WIDTH);
    cell_bytes(b, r->temporary_bytes, WIDTH);
}

static void cells_fixed(struct buf *b, const struct pattern_row *r)
{
    cell_bytes(b, r->only_size, WIDTH);
    cell_count(b, r->count, WIDTH);
    cell_bytes(b, r->peak_bytes, WIDTH);
    cell_bytes(b, r->live_bytes, WIDTH);
}

static bool has_waste(const struct pattern_row *r)
{
    return r->peak_waste != 0;
}

static void cells_waste(struct buf *b, const struct pattern_row *r)
{
    char text[FORMAT_SIZE];
    cell_bytes(b, r->peak_waste, WIDTH);
    cell(b, format_percent(text, r->waste, saturating_add(r->bytes, r->waste)), WIDTH);
    cell_count(b, r->count, WIDTH);
    cell_bytes(b, r->count ? r->bytes / r->count : 0, WIDTH);
}

static const struct table tables[] = {
    {"Grow by copying",
     PATTERN_BY_COPIED,
     pattern_grows,
     {"Copied", "Steps", "Chains", "Longest", "Largest", "Given back"},
     cells_grown},
    {"Temporary blocks one after the other",
     PATTERN_BY_TEMPORARY,
     has_loops,
     {"Temporary", "Of all", "In a row", "Size", NULL, NULL},
     cells_temporary},
    {"Large, of one size, and never grown",
     PATTERN_BY_PEAK,
     pattern_never_grew,
     {"Size each", "Count", "Peak", "Live size", NULL, NULL},
     cells_fixed},
    {"Room that glibc's malloc would add",
     PATTERN_BY_WASTE,
     has_waste,
     {"At most", "Of all", "Count", "Mean size", NULL, NULL},
     cells_waste},
};

static void text_table(struct writer *w, const struct table *t)
{
    struct buf *b = &w->doc.buf;
    char text[FORMAT_SIZE];
    size_t shown = 0;
    size_t rest = 0;
    patterns_sort(w->p, t->order);
    for (size_t i = 0; i < w->p->rows.len; i++) {
        const struct pattern_row *r = &w->p->rows.at[i];
        if (!t->wants(r))
            continue;
        if (w->options->limit && shown == w->options->limit) {
            rest++;
            continue;
        }
        if (shown++ == 0) {
            buf_printf(b, "%s%s\n", b->len || w->doc.first ? "\n" : "", t->title);
            for (size_t k = 0; k < 6 && t->columns[k]; k++)
                cell(b, t->columns[k], WIDTH);
            buf_puts(b, "  Source location\n");
        }
        t->cells(b, r);
        text_name(w, r);
        w->doc.first = true; /* there is text above */
        document_flush(&w->doc);
    }
    if (rest)
        buf_printf(b, "%s not shown (--limit 0 shows all)\n",
                   format_counted(text, rest, "more site"));
}

static void write_text(struct writer *w)
{
    if (w->p->rows.len == 0)
        buf_puts(&w->doc.buf, "no allocations\n");
    w->doc.first = false;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        text_table(w, &tables[i]);
}

/* ---- JSON, CSV */

static json_t *make_row(const struct writer *w, const struct pattern_row *r)
{
    json_t *growth =
        json_pack("{s:b, s:o, s:o, s:o, s:o, s:o, s:o}", "told", pattern_grows(r) ? 1 : 0, "chains",
                  json_count(r->chains), "steps", json_count(r->grown), "copied_bytes",
                  json_count(r->copied), "longest", json_count(r->longest), "steps_down",
                  json_count(r->down), "given_back_bytes", json_count(r->given_back));
    json_t *temporary =
        json_pack("{s:o, s:o, s:o}", "count", json_count(r->temporary), "bytes",
                  json_count(r->temporary_bytes), "longest_run", json_count(r->longest_run));
    json_t *waste = json_pack("{s:o, s:o}", "bytes", json_count(r->waste), "peak_bytes",
                              json_count(r->peak_waste));
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:o, s:o, s:o, s:o}", "pool",
        json_text(pool_name(w, r)), "function", json_text_or_null(r->frame.function), "file",
        json_text_or_null(r->frame.file), "line",
        r->frame.line ? json_integer(r->frame.line) : json_null(), "image",
        json_text_or_null(r->frame.image), "count", json_count(r->count), "bytes",
        json_count(r->bytes), "largest", json_count(r->largest), "live_bytes",
        json_count(r->live_bytes), "peak_bytes", json_count(r->peak_bytes), "only_size",
        r->only_size ? json_count(r->only_size) : json_null(), "never_grown",
        pattern_never_grew(r) ? 1 : 0, "growth", growth, "temporary", temporary, "glibc_waste",
        waste, "callstack", json_callstack(w->s->trace, r->callstack));
}

static void write_json(struct writer *w)
{
    document_open(&w->doc, "tidemark.patterns/1");
    document_member(&w->doc, "trace", document_trace(w->s->trace));
    document_list(&w->doc, "sites");
    for (size_t i = 0; i < w->p->rows.len && (!w->options->limit || i < w->options->limit); i++) {
        document_element(&w->doc, make_row(w, &w->p->rows.at[i]));
        document_flush(&w->doc);
    }
    document_list_end(&w->doc);
    document_close(&w->doc);
}

static void csv_row(struct writer *w, const struct pattern_row *r)
{
    struct buf *b = &w->doc.buf;
    csv_field(b, pool_name(w, r));
    buf_puts(b, ",");
    csv_site(b, &r->frame, r->no_callstack);
    const uint64_t numbers[] = {r->count,      r->bytes,           r->largest,     r->live_bytes,
                                r->peak_bytes, r->only_size,       r->chains,      r->grown,
                                r->copied,     r->longest,         r->down,        r->given_back,
                                r->temporary,  r->temporary_bytes, r->longest_run, r->waste,
                                r->peak_waste};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        buf_printf(b, ",%" PRIu64, numbers[i]);
    buf_puts(b, "\n");
}

static void write_csv(struct writer *w)
{
    buf_puts(&w->doc.buf,
             "pool,function,file,line,image,count,bytes,largest,live_bytes,peak_bytes,only_size,"
             "chains,grown,copied_bytes,longest_chain,steps_down,given_back_bytes,temporary,"
             "temporary_bytes,longest_run,glibc_waste_bytes,glibc_waste_peak_bytes\n");
    for (size_t i = 0; i < w->p->rows.len && (!w->options->limit || i < w->options->limit); i++) {
        csv_row(w, &w->p->rows.at[i]);
        document_flush(&w->doc);
    }
}

int patterns_write(struct patterns *p, const struct selection *s,
                   const struct leak_report_options *options, FILE *out, struct err *e)
{
    struct writer w = {.p = p, .s = s, .options = options, .doc = document_begin(out)};
    patterns_sort(p, PATTERN_BY_BYTES);
    if (options->format == REPORT_TEXT)
        write_text(&w);
    else if (options->format == REPORT_JSON)
        write_json(&w);
    else
        write_csv(&w);
    return document_end(&w.doc, e);
}
