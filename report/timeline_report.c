#include "report/timeline_report.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/questions/peaks.h"
#include "base/format.h"
#include "report/write/axis.h"
#include "report/write/row_table.h"

#define LABEL_WIDTH 10
#define PEAKS_SHOWN 5
#define MARK_WIDTH 12u /* columns of a label of the axis, and blanks */

/* Where a chart of one series shows the RSS above the use. */

/* A column of a chart that stands for time without events. */
#define GAP_MARK "┊"

static const char *const eighths[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

struct writer {
    const struct timeline *t;
    const struct timeline_report_options *options;
    struct document doc;
    struct row_writer rows; /* of buckets, in JSON and CSV */
};

/* The time, with more digits if that of the next bucket would look alike. */
static const char *put_time(char out[FORMAT_SIZE], const struct timeline *t, int64_t time)
{
    uint64_t length = (uint64_t)t->end - (uint64_t)t->begin;
    return format_time_near(out, time, t->count ? length / t->count : length);
}

static size_t column_count(const struct writer *w)
{
    return w->options->columns ? w->options->column_count : w->t->count;
}

/* The bucket of a column, or TIMELINE_GAP. */
static size_t bucket_of(const struct writer *w, size_t column)
{
    return w->options->columns ? w->options->columns[column] : column;
}

static uint64_t highest(const struct writer *w, const struct timeline_series *s)
{
    uint64_t most = 0;
    for (size_t i = 0; i < w->t->count; i++)
        most = s->buckets[i].high > most ? s->buckets[i].high : most;
    return most;
}

/* The highest RSS. NULL: it is not known. */
static const struct kernel_reading *highest_resident(const struct writer *w)
{
    const struct kernel_curve *k = &w->t->kernel;
    const struct kernel_reading *most = NULL;
    for (size_t i = 0; i < k->count && k->buckets; i++) {
        const struct kernel_bucket *b = &k->buckets[i];
        if (b->known && (!most || b->high.resident > most->resident))
            most = &b->high;
    }
    return most;
}

static bool find_peaks(struct writer *w, const struct timeline_series *s,
                       struct timeline_peak **list, size_t *n)
{
    bool ok = timeline_peaks(w->t, s, highest(w, s) / TIMELINE_PEAK_SHARE, list, n);
    w->doc.failed |= !ok;
    return ok;
}

/* ---- text */

/* `edge`: what a terminal shows between the label and the chart. */
static void label(struct writer *w, const char *text, const char *edge)
{
    size_t width = format_width(view_of(text));
    for (; width < LABEL_WIDTH; width++)
        buf_puts(&w->doc.buf, " ");
    buf_puts(&w->doc.buf, text);
    buf_puts(&w->doc.buf, w->doc.form.width ? edge : " ");
}

/* The height of a bar in eighths of a row; at least one unless the value is 0. */
static unsigned eighths_of(uint64_t n, uint64_t most, unsigned rows)
{
    unsigned filled = most ? (unsigned)((unsigned __int128)n * rows * 8 / most) : 0;
    return filled == 0 && n ? 1 : filled;
}

/* A chart: a value of each bucket as a bar. */
struct chart {
    const struct timeline_series *series; /* NULL: the RSS as bars */
    bool live;                            /* blocks, not bytes */
    unsigned rows;
    uint64_t most, peak; /* the highest of all, and the highest bar */
};

static uint64_t resident_in(const struct timeline *t, size_t i)
{
    const struct kernel_bucket *buckets = t->kernel.buckets;
    return buckets && buckets[i].known ? buckets[i].high.resident : 0;
}

static uint64_t bar_of(const struct timeline *t, const struct chart *c, size_t i)
{
    if (!c->series)
        return resident_in(t, i);
    return c->live ? c->series->buckets[i].high_live : c->series->buckets[i].high;
}

static void draw_row(struct writer *w, const struct chart *c, unsigned row)
{
    for (size_t k = 0; k < column_count(w); k++) {
        size_t i = bucket_of(w, k);
        if (i == TIMELINE_GAP) {
            buf_puts(&w->doc.buf, GAP_MARK);
            continue;
        }
        uint64_t n = bar_of(w->t, c, i);
        unsigned filled = eighths_of(n, c->most, c->rows);
        unsigned base = row * 8;
        unsigned here = filled <= base ? 0 : filled - base > 8 ? 8 : filled - base;
        bool marked = w->doc.form.colors && c->series && !c->live && n == c->peak && here;
        buf_puts(&w->doc.buf, marked ? "\033[31m" : "");
        buf_puts(&w->doc.buf, eighths[here]);
        buf_puts(&w->doc.buf, marked ? "\033[0m" : "");
    }
    buf_puts(&w->doc.buf, "\n");
}

static void draw_chart(struct writer *w, struct chart c)
{
    char text[FORMAT_SIZE];
    for (size_t i = 0; i < w->t->count; i++) {
        uint64_t n = bar_of(w->t, &c, i);
        c.peak = n > c.peak ? n : c.peak;
        c.most = n > c.most ? n : c.most;
    }
    for (unsigned row = c.rows; row-- > 0;) {
        bool top = row + 1 == c.rows;
        bool half = w->doc.form.width && c.rows >= 4 && (row + 1) * 2 == c.rows;
        uint64_t at = top ? c.most : c.most / 2;
        label(w,
              !top && !half ? ""
              : c.live      ? format_count(text, at)
                            : format_bytes(text, at),
              top || half ? "┤" : "│");
        draw_row(w, &c, row);
    }
}

/* The window's begin and end, below a chart that goes to no terminal. */
static void draw_ends(struct writer *w)
{
    char begin[FORMAT_SIZE];
    char end[FORMAT_SIZE];
    format_duration(begin, w->t->begin);
    format_duration(end, w->t->end);
    size_t used = format_width(view_of(begin)) + format_width(view_of(end));
    label(w, "", " ");
    buf_puts(&w->doc.buf, begin);
    for (size_t i = used < w->t->count ? w->t->count - used : 1; i; i--)
        buf_puts(&w->doc.buf, " ");
    buf_printf(&w->doc.buf, "%s\n", end);
}

/* The column of a mark, at most the last one; TIMELINE_GAP: its time is left out. */
static size_t mark_column(const struct writer *w, const struct axis *a, unsigned i)
{
    const struct timeline *t = w->t;
    uint64_t length = (uint64_t)t->end - (uint64_t)t->begin;
    uint64_t at = (uint64_t)axis_mark(a, i) - (uint64_t)t->begin;
    size_t bucket = length ? (size_t)((unsigned __int128)at * t->count / length) : 0;
    size_t column = 0;
    bucket = bucket < t->count ? bucket : t->count - 1;
    if (!w->options->columns)
        return bucket;
    while (column < column_count(w) && bucket_of(w, column) != bucket)
        column++;
    return column < column_count(w) ? column : TIMELINE_GAP;
}

/* The lowest part of a chart's frame. */
static void draw_floor(struct writer *w, const struct axis *a)
{
    unsigned next = 0;
    label(w, "0", "└");
    for (size_t i = 0; i < column_count(w); i++) {
        while (next < a->marks && mark_column(w, a, next) == TIMELINE_GAP)
            next++;
        bool mark = next < a->marks && mark_column(w, a, next) == i;
        while (next < a->marks && mark_column(w, a, next) == i)
            next++;
        buf_puts(&w->doc.buf, bucket_of(w, i) == TIMELINE_GAP ? GAP_MARK : mark ? "┬" : "─");
    }
    buf_puts(&w->doc.buf, "\n");
}

/* Marks at round times, and their labels. */
static void draw_axis(struct writer *w)
{
    if (w->doc.form.width == 0) {
        draw_ends(w);
        return;
    }
    struct buf *b = &w->doc.buf;
    unsigned most = (unsigned)(w->t->count / MARK_WIDTH);
    struct axis a = axis_of_times(w->t->begin, w->t->end, most ? most : 1);
    char text[FORMAT_SIZE];
    size_t used = 0, room = column_count(w);
    draw_floor(w, &a);
    label(w, "", " ");
    for (unsigned i = 0; i < a.marks; i++) {
        size_t at = mark_column(w, &a, i), width;
        if (at == TIMELINE_GAP)
            continue;
        width = format_width(view_of(axis_label(text, &a, i)));
        /* The last one ends with the chart. */
        at = at + width <= room ? at : room > width ? room - width : 0;
        if (used && at <= used)
            continue;
        for (; used < at; used++)
            buf_puts(b, " ");
        buf_puts(b, text);
        used += width;
    }
    buf_puts(b, "\n");
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
        qsort(list, n, sizeof *list, peaks_compare);
    for (size_t i = 0; i < n && i < PEAKS_SHOWN; i++)
        buf_printf(&w->doc.buf, "%s%s at %s",
                   i ? ", " : "peaks: ", format_bytes(bytes, list[i].bytes),
                   put_time(time, w->t, list[i].time));
    if (n > PEAKS_SHOWN)
        buf_printf(&w->doc.buf, ", and %s more", format_count(bytes, n - PEAKS_SHOWN));
    if (n)
        buf_puts(&w->doc.buf, "\n");
    free(list);
}

/* "resident (RSS of the process): 493 MiB at the end: anonymous …; highest 493 MiB at 1.48 s" */
static void put_resident(struct writer *w)
{
    char a[FORMAT_SIZE], b[FORMAT_SIZE], c[FORMAT_SIZE];
    const struct kernel_reading *high = highest_resident(w), *last = &w->t->kernel.last;
    buf_printf(&w->doc.buf, "\nresident (RSS of the process): %s at %s",
               format_bytes(a, last->resident), format_duration(b, last->time));
    buf_printf(&w->doc.buf, " (anonymous %s, files %s, shared %s)",
               format_bytes(a, last->anonymous), format_bytes(b, last->file),
               format_bytes(c, last->shared));
    if (last->swapped)
        buf_printf(&w->doc.buf, ", and %s swapped", format_bytes(a, last->swapped));
    buf_printf(&w->doc.buf, "; highest %s at %s\n", format_bytes(a, high->resident),
               format_duration(b, high->time));
}

static void text_series(struct writer *w, const struct timeline_series *s, bool first)
{
    char text[FORMAT_SIZE];
    const struct timeline_bucket *end = &s->buckets[w->t->count - 1];
    buf_puts(&w->doc.buf, first ? "pool " : "\npool ");
    format_terminal(&w->doc.buf, s->name);
    buf_printf(&w->doc.buf, ": %s in use at the end", format_bytes(text, end->last));
    buf_printf(&w->doc.buf, " in %s\n", format_counted(text, end->last_live, "block"));
    draw_chart(w, (struct chart){.series = s, .rows = w->options->rows});
    draw_axis(w);
    list_peaks(w, s);
    buf_puts(&w->doc.buf, "blocks\n");
    draw_chart(w, (struct chart){.series = s, .live = true, .rows = 2});
}

static void put_trimmed(struct writer *w)
{
    char begin[FORMAT_SIZE], end[FORMAT_SIZE];
    buf_printf(&w->doc.buf, "from %s to %s: the rest has no events (--range shows it)\n",
               put_time(begin, w->t, w->t->begin), put_time(end, w->t, w->t->end));
}

static void put_gaps(struct writer *w)
{
    char begin[FORMAT_SIZE], end[FORMAT_SIZE];
    const size_t *columns = w->options->columns;
    size_t shown = 0;
    buf_puts(&w->doc.buf, GAP_MARK " no events from ");
    for (size_t i = 0; i < w->options->column_count; i++) {
        if (columns[i] != TIMELINE_GAP)
            continue;
        size_t from = i ? columns[i - 1] + 1 : 0;
        size_t to = i + 1 < w->options->column_count ? columns[i + 1] : w->t->count;
        buf_printf(&w->doc.buf, "%s%s to %s", shown++ ? ", from " : "",
                   put_time(begin, w->t, timeline_time(w->t, from)),
                   put_time(end, w->t, timeline_time(w->t, to)));
    }
    buf_puts(&w->doc.buf, " (--range shows all)\n");
}

/* On a separate scale: the RSS is often far higher than what is in use. */
static void text_resident(struct writer *w)
{
    if (!highest_resident(w))
        return;
    put_resident(w);
    draw_chart(w, (struct chart){.rows = (w->options->rows + 1) / 2});
    draw_axis(w);
}

/* ---- JSON, CSV */

struct bucket_row {
    struct view pool;
    int64_t begin, end;
    struct timeline_bucket of;
    struct kernel_bucket kernel;
};

static bool resident_known(const void *row)
{
    return ((const struct bucket_row *)row)->kernel.known;
}

#define BUCKET(KEY, KIND, MEMBER) KEY, KIND, .offset = offsetof(struct bucket_row, MEMBER)
#define KERNEL(KEY, MEMBER) BUCKET(KEY, VALUE_BYTES, kernel.high.MEMBER), .known = resident_known

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
    {KERNEL("resident_bytes", resident)},
    {KERNEL("resident_anonymous_bytes", anonymous)},
    {KERNEL("resident_file_bytes", file)},
    {KERNEL("resident_shared_bytes", shared)},
    {KERNEL("swapped_bytes", swapped)},
    {0},
};

#define BUCKET_FIGURES                                                                             \
    "begin_ns|end_ns|low_bytes|high_bytes|high_time_ns|last_bytes|high_live|last_live"             \
    "|allocations|frees|allocated_bytes|freed_bytes|resident_bytes|resident_anonymous_bytes"       \
    "|resident_file_bytes|resident_shared_bytes|swapped_bytes"

static const struct row_table bucket_table = {
    .columns = bucket_columns, .json = BUCKET_FIGURES, .csv = "pool|" BUCKET_FIGURES};

static void write_buckets(struct writer *w, const struct timeline_series *s)
{
    for (size_t i = 0; i < w->t->count; i++) {
        struct bucket_row row = {s->name,
                                 timeline_time(w->t, i),
                                 timeline_time(w->t, i + 1),
                                 s->buckets[i],
                                 {.known = false}};
        if (w->t->kernel.buckets)
            row.kernel = w->t->kernel.buckets[i];
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
    if (options->format == REPORT_TEXT)
        document_fit(&w.doc);
    else
        w.rows = row_writer(&w.doc, &bucket_table, NULL, options->format, false);
    if (options->format == REPORT_JSON) {
        document_begin_json(&w.doc, "tidemark.timeline/1", trace);
        document_list(&w.doc, "pools");
    } else if (options->format == REPORT_CSV) {
        row_titles(&w.rows);
    } else if (t->series.len == 0) {
        buf_puts(&w.doc.buf, "no memory data\n");
    } else if (options->trimmed) {
        put_trimmed(&w);
    }
    if (options->format == REPORT_TEXT && options->columns && options->gaps)
        put_gaps(&w);
    for (size_t i = 0; i < t->series.len; i++) {
        if (options->format == REPORT_JSON)
            json_series(&w, &t->series.at[i], i == 0);
        else if (options->format == REPORT_CSV)
            write_buckets(&w, &t->series.at[i]);
        else
            text_series(&w, &t->series.at[i], i == 0);
        document_flush(&w.doc);
    }
    if (options->format == REPORT_TEXT)
        text_resident(&w);
    if (options->format == REPORT_JSON) {
        buf_puts(&w.doc.buf, "]");
        document_close(&w.doc);
    }
    return document_end(&w.doc, e);
}
