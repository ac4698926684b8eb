#include "report/timeline_report.h"

#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "report/write/row_table.h"
#include "report/write/text_cells.h"

#define LABEL_WIDTH 10
#define PEAKS_SHOWN 5

static const char *const eighths[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

struct writer {
    const struct timeline *t;
    const struct timeline_report_options *options;
    struct document doc;
    struct row_writer rows; /* of buckets, in JSON and CSV */
};

static uint64_t highest(const struct writer *w, const struct timeline_series *s, bool live)
{
    uint64_t most = 0;
    for (size_t i = 0; i < w->t->count; i++) {
        uint64_t n = live ? s->buckets[i].high_live : s->buckets[i].high;
        most = n > most ? n : most;
    }
    return most;
}

static bool find_peaks(struct writer *w, const struct timeline_series *s,
                       struct timeline_peak **list, size_t *n)
{
    bool ok = timeline_peaks(w->t, s, highest(w, s, false) / TIMELINE_PEAK_SHARE, list, n);
    w->doc.failed |= !ok;
    return ok;
}

/* ---- text */

static void label(struct writer *w, const char *text)
{
    size_t width = format_width(view_of(text));
    for (; width < LABEL_WIDTH; width++)
        buf_puts(&w->doc.buf, " ");
    buf_puts(&w->doc.buf, text);
    buf_puts(&w->doc.buf, " ");
}

/* The height of a bar in eighths of a row; at least one unless the value is 0. */
static unsigned eighths_of(uint64_t n, uint64_t most, unsigned rows)
{
    unsigned filled = most ? (unsigned)((unsigned __int128)n * rows * 8 / most) : 0;
    return filled == 0 && n ? 1 : filled;
}

static void draw_row(struct writer *w, const struct timeline_series *s, uint64_t most, bool live,
                     unsigned row, unsigned rows)
{
    for (size_t i = 0; i < w->t->count; i++) {
        uint64_t n = live ? s->buckets[i].high_live : s->buckets[i].high;
        unsigned filled = eighths_of(n, most, rows);
        unsigned base = row * 8;
        unsigned here = filled <= base ? 0 : filled - base > 8 ? 8 : filled - base;
        bool marked = w->options->colors && !live && n == most && here;
        buf_puts(&w->doc.buf, marked ? "\033[31m" : "");
        buf_puts(&w->doc.buf, eighths[here]);
        buf_puts(&w->doc.buf, marked ? "\033[0m" : "");
    }
    buf_puts(&w->doc.buf, "\n");
}

static void draw_chart(struct writer *w, const struct timeline_series *s, bool live, unsigned rows)
{
    uint64_t most = highest(w, s, live);
    char text[FORMAT_SIZE];
    for (unsigned row = rows; row-- > 0;) {
        bool top = row + 1 == rows;
        label(w, !top ? "" : live ? format_count(text, most) : format_bytes(text, most));
        draw_row(w, s, most, live, row, rows);
    }
}

/* The window's begin and end, below the chart. */
static void draw_axis(struct writer *w)
{
    char begin[FORMAT_SIZE];
    char end[FORMAT_SIZE];
    format_duration(begin, w->t->begin);
    format_duration(end, w->t->end);
    size_t used = format_width(view_of(begin)) + format_width(view_of(end));
    label(w, "");
    buf_puts(&w->doc.buf, begin);
    for (size_t i = used < w->t->count ? w->t->count - used : 1; i; i--)
        buf_puts(&w->doc.buf, " ");
    buf_printf(&w->doc.buf, "%s\n", end);
}

static int compare_peaks(const void *a, const void *b)
{
    const struct timeline_peak *x = a;
    const struct timeline_peak *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return (x->time > y->time) - (x->time < y->time);
}

static void list_peaks(struct writer *w, const struct timeline_series *s)
{
    struct timeline_peak *list;
    size_t n;
    char bytes[FORMAT_SIZE];
    char time[FORMAT_SIZE];
    if (!find_peaks(w, s, &list, &n))
        return;
    if (n)
        qsort(list, n, sizeof *list, compare_peaks);
    for (size_t i = 0; i < n && i < PEAKS_SHOWN; i++)
        buf_printf(&w->doc.buf, "%s%s at %s",
                   i ? ", " : "peaks: ", format_bytes(bytes, list[i].bytes),
                   format_duration(time, list[i].time));
    if (n > PEAKS_SHOWN)
        buf_printf(&w->doc.buf, ", and %s more", format_count(bytes, n - PEAKS_SHOWN));
    if (n)
        buf_puts(&w->doc.buf, "\n");
    free(list);
}

static void text_series(struct writer *w, const struct timeline_series *s, bool first)
{
    char text[FORMAT_SIZE];
    const struct timeline_bucket *end = &s->buckets[w->t->count - 1];
    buf_puts(&w->doc.buf, first ? "pool " : "\npool ");
    format_terminal(&w->doc.buf, s->name);
    buf_printf(&w->doc.buf, ": %s in use at the end", format_bytes(text, end->last));
    buf_printf(&w->doc.buf, " in %s\n", format_counted(text, end->last_live, "block"));
    draw_chart(w, s, false, w->options->rows);
    draw_axis(w);
    list_peaks(w, s);
    buf_puts(&w->doc.buf, "blocks\n");
    draw_chart(w, s, true, 2);
}

/* ---- JSON, CSV */

struct bucket_row {
    struct view pool;
    int64_t begin, end;
    struct timeline_bucket of;
};

#define BUCKET(KEY, KIND, MEMBER) KEY, KIND, .offset = offsetof(struct bucket_row, MEMBER)

static const struct row_column bucket_columns[] = {
    {BUCKET("pool", VALUE_NAME, pool)},
    {BUCKET("begin_ns", VALUE_TIME, begin)},
    {BUCKET("end_ns", VALUE_TIME, end)},
    {BUCKET("low_bytes", VALUE_BYTES, of.low)},
    {BUCKET("high_bytes", VALUE_BYTES, of.high)},
    {BUCKET("high_time_ns", VALUE_TIME, of.high_time)},
    {BUCKET("last_bytes", VALUE_BYTES, of.last)},
    {BUCKET("high_live", VALUE_COUNT, of.high_live)},
    {BUCKET("last_live", VALUE_COUNT, of.last_live)},
    {BUCKET("allocations", VALUE_COUNT, of.allocations)},
    {BUCKET("frees", VALUE_COUNT, of.frees)},
    {BUCKET("allocated_bytes", VALUE_BYTES, of.allocated)},
    {BUCKET("freed_bytes", VALUE_BYTES, of.freed)},
    {0},
};

#define BUCKET_FIGURES                                                                             \
    "begin_ns|end_ns|low_bytes|high_bytes|high_time_ns|last_bytes|high_live|last_live"             \
    "|allocations|frees|allocated_bytes|freed_bytes"

static const struct row_table bucket_table = {
    .columns = bucket_columns, .json = BUCKET_FIGURES, .csv = "pool|" BUCKET_FIGURES};

static void write_buckets(struct writer *w, const struct timeline_series *s)
{
    for (size_t i = 0; i < w->t->count; i++) {
        const struct bucket_row row = {s->name, timeline_time(w->t, i), timeline_time(w->t, i + 1),
                                       s->buckets[i]};
        row_write(&w->rows, &row);
    }
}

static void json_series(struct writer *w, const struct timeline_series *s, bool first)
{
    struct timeline_peak *list;
    size_t n;
    buf_puts(&w->doc.buf, first ? "\n {\"name\": " : ",\n {\"name\": ");
    w->doc.failed |= !json_put(&w->doc.buf, json_text(s->name), 0);
    if (!find_peaks(w, s, &list, &n))
        return;
    document_list(&w->doc, "peaks");
    for (size_t i = 0; i < n; i++)
        document_element(&w->doc, json_pack("{s:I, s:o, s:o}", "time_ns", (json_int_t)list[i].time,
                                            "bytes", json_count(list[i].bytes), "rise_bytes",
                                            json_count(list[i].rise)));
    document_list_end(&w->doc);
    free(list);
    document_list(&w->doc, "buckets");
    write_buckets(w, s);
    document_list_end(&w->doc);
    buf_puts(&w->doc.buf, "}");
}

/* ---- entry point */

int timeline_write(const struct timeline *t, const struct trace *trace,
                   const struct timeline_report_options *options, FILE *out, struct err *e)
{
    struct writer w = {.t = t, .options = options, .doc = document_begin(out)};
    if (options->format != REPORT_TEXT)
        w.rows = row_writer(&w.doc, &bucket_table, NULL, options->format, false);
    if (options->format == REPORT_JSON) {
        document_begin_json(&w.doc, "tidemark.timeline/1", trace);
        document_list(&w.doc, "pools");
    } else if (options->format == REPORT_CSV) {
        row_titles(&w.rows);
    } else if (t->series.len == 0) {
        buf_puts(&w.doc.buf, "no memory data\n");
    }
    for (size_t i = 0; i < t->series.len; i++) {
        if (options->format == REPORT_JSON)
            json_series(&w, &t->series.at[i], i == 0);
        else if (options->format == REPORT_CSV)
            write_buckets(&w, &t->series.at[i]);
        else
            text_series(&w, &t->series.at[i], i == 0);
        document_flush(&w.doc);
    }
    if (options->format == REPORT_JSON) {
        buf_puts(&w.doc.buf, "]");
        document_close(&w.doc);
    }
    return document_end(&w.doc, e);
}
