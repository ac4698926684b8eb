#include "report/cost.h"

#include <inttypes.h>

#include "base/format.h"
#include "report/write/emit.h"
#include "report/write/text_cells.h"

#define OUTLIERS_SHOWN 10u

static const struct zone_cost *cost_of(const struct summary *s, const struct summary_row *row)
{
    return s->by == GROUP_ZONE && row->cost ? &s->zone_costs.at[row->cost - 1] : NULL;
}

static double per_call(uint64_t n, const struct zone_cost *c)
{
    return c->calls ? (double)n / (double)c->calls : 0;
}

/* ---- text */

unsigned text_cost_width(const struct report *r)
{
    return r->s->by == GROUP_ZONE ? 11 + 10 + 9 + 9 + 9 + 4 * 2 : r->s->by == GROUP_FRAME ? 9 : 0;
}

void text_cost_titles(struct report *r)
{
    if (r->s->by == GROUP_ZONE) {
        cell(&r->doc.buf, "Calls", 11);
        cell(&r->doc.buf, "Per call", 10);
        cell(&r->doc.buf, "Most", 9);
        cell(&r->doc.buf, "Per call", 9);
        cell(&r->doc.buf, "Most", 9);
    } else if (r->s->by == GROUP_FRAME) {
        cell(&r->doc.buf, "Score", 9);
    }
}

static void cell_real(struct buf *b, double x, size_t width)
{
    char text[48];
    snprintf(text, sizeof text, x < 100 && x > -100 ? "%.2f" : "%.0f", x);
    cell(b, text, width);
}

/* The value with the larger magnitude. */
static double larger(double a, double b)
{
    return (a < 0 ? -a : a) >= (b < 0 ? -b : b) ? a : b;
}

void text_cost(struct report *r, const struct summary_row *row)
{
    struct buf *b = &r->doc.buf;
    const struct zone_cost *c = cost_of(r->s, row);
    if (r->s->by == GROUP_FRAME) {
        cell_real(b, larger((double)row->count_score, (double)row->bytes_score), 9);
    } else if (c) {
        cell_count(b, c->calls, 11);
        cell_real(b, per_call(row->figures.count, c), 10);
        cell_count(b, c->count_max, 9);
        cell_bytes(b, (uint64_t)(per_call(row->figures.bytes, c) + 0.5), 9);
        cell_bytes(b, c->bytes_max, 9);
    } else if (r->s->by == GROUP_ZONE) {
        static const size_t widths[] = {11, 10, 9, 9, 9};
        for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
            cell(b, "-", widths[i]);
    }
}

static void put_pool(struct report *r, const struct summary_frames *f)
{
    struct buf *b = &r->doc.buf;
    char n[FORMAT_SIZE];
    char bytes[FORMAT_SIZE];
    char mad[FORMAT_SIZE];
    buf_puts(b, "\nPool ");
    format_terminal(b, r->s->pools.at[f->pool].name);
    buf_printf(b, ": %s", format_counted(n, f->frames, "frame"));
    if (f->empty)
        buf_printf(b, ", %s without an allocation", format_count(n, f->empty));
    buf_printf(b, "; in the middle %.6g allocations (MAD %.6g) of %s (MAD %s)\n", f->count.median,
               f->count.mad, format_bytes(bytes, (uint64_t)f->bytes.median),
               format_bytes(mad, (uint64_t)f->bytes.mad));
    if (f->frames < OUTLIERS_LEAST) {
        buf_printf(b, "  too few frames to identify outliers\n");
        return;
    }
    size_t shown = f->outlier_count < OUTLIERS_SHOWN ? f->outlier_count : OUTLIERS_SHOWN;
    for (size_t i = 0; i < shown; i++) {
        const struct summary_row *row = &r->s->outliers.at[f->first_outlier + i];
        buf_puts(b, "  ");
        format_terminal(b, row->name);
        buf_printf(b, " is an outlier: %s, %s (scores %.1f and %.1f)\n",
                   format_counted(n, row->figures.count, "allocation"),
                   format_bytes(bytes, row->figures.bytes), (double)row->count_score,
                   (double)row->bytes_score);
    }
    if (f->outlier_count > shown)
        buf_printf(b, "  and %s (as JSON: all of them)\n",
                   format_counted(n, f->outlier_count - shown, "more outlier"));
    if (f->outlier_count == 0)
        buf_puts(b, "  no outliers\n");
}

void text_frames(struct report *r)
{
    for (size_t i = 0; i < r->s->frames.len; i++)
        put_pool(r, &r->s->frames.at[i]);
}

/* ---- JSON */

static json_t *call_figures(double count, uint64_t count_max, double bytes, uint64_t bytes_max)
{
    return json_pack("{s:f, s:o, s:f, s:o}", "count_mean", count, "count_max",
                     json_count(count_max), "bytes_mean", bytes, "bytes_max",
                     json_count(bytes_max));
}

static json_t *frame_of(const struct summary *s, const struct summary_row *row)
{
    return json_count(trace_frame_number(s->trace, row->key - 1));
}

static json_t *scores(const struct summary *s, const struct summary_row *row, json_t *object)
{
    bool few = s->frames.len == 0 || s->frames.at[0].frames < OUTLIERS_LEAST || row->key == 0;
    object = json_with(object, "frame", row->key ? frame_of(s, row) : json_null());
    object =
        json_with(object, "count_score", few ? json_null() : json_real((double)row->count_score));
    object =
        json_with(object, "bytes_score", few ? json_null() : json_real((double)row->bytes_score));
    return json_with(object, "outlier", json_boolean(summary_row_is_outlier(row)));
}

json_t *json_cost(const struct summary *s, const struct summary_row *row, json_t *object)
{
    const struct zone_cost *c = cost_of(s, row);
    if (s->by == GROUP_FRAME && row->name.len)
        return scores(s, row, object);
    if (!c || row->name.len == 0)
        return object;
    object = json_with(object, "calls", json_count(c->calls));
    object = json_with(object, "allocating_calls", json_count(c->allocating));
    object = json_with(object, "per_call",
                       call_figures(per_call(row->figures.count, c), c->count_max,
                                    per_call(row->figures.bytes, c), c->bytes_max));
    return json_with(object, "per_call_with_inner",
                     call_figures(per_call(c->all_count, c), c->all_count_max,
                                  per_call(c->all_bytes, c), c->all_bytes_max));
}

static json_t *scale(const struct outlier_scale *s)
{
    return json_pack("{s:f, s:f, s:f}", "median", s->median, "mad", s->mad, "mean_distance",
                     s->mean_distance);
}

json_t *json_frames(const struct summary *s, const struct summary_frames *f)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < f->outlier_count; i++) {
        const struct summary_row *row = &s->outliers.at[f->first_outlier + i];
        json_t *v = json_pack("{s:o, s:o, s:o, s:f, s:f}", "frame", frame_of(s, row), "count",
                              json_count(row->figures.count), "bytes",
                              json_count(row->figures.bytes), "count_score",
                              (double)row->count_score, "bytes_score", (double)row->bytes_score);
        list = json_add(list, v);
    }
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:f, s:o}", "pool",
                     json_text(s->pools.at[f->pool].name), "frames", json_count(f->frames), "empty",
                     json_count(f->empty), "count", scale(&f->count), "bytes", scale(&f->bytes),
                     "threshold", OUTLIER_SCORE, "outliers", list);
}

/* ---- CSV */

void csv_cost_titles(struct report *r)
{
    if (r->s->by == GROUP_ZONE)
        buf_puts(&r->doc.buf, ",calls,allocating_calls,count_per_call,count_max,bytes_per_call,"
                              "bytes_max,count_per_call_with_inner,count_max_with_inner,"
                              "bytes_per_call_with_inner,bytes_max_with_inner");
    else if (r->s->by == GROUP_FRAME)
        buf_puts(&r->doc.buf, ",count_score,bytes_score,outlier");
}

void csv_cost(struct report *r, const struct summary_row *row)
{
    struct buf *b = &r->doc.buf;
    const struct zone_cost *c = cost_of(r->s, row);
    if (r->s->by == GROUP_FRAME) {
        buf_printf(b, ",%.6g,%.6g,%d", (double)row->count_score, (double)row->bytes_score,
                   summary_row_is_outlier(row));
    } else if (c) {
        buf_printf(b, ",%" PRIu64 ",%" PRIu64 ",%.6g,%" PRIu64 ",%.6g,%" PRIu64, c->calls,
                   c->allocating, per_call(row->figures.count, c), c->count_max,
                   per_call(row->figures.bytes, c), c->bytes_max);
        buf_printf(b, ",%.6g,%" PRIu64 ",%.6g,%" PRIu64, per_call(c->all_count, c),
                   c->all_count_max, per_call(c->all_bytes, c), c->all_bytes_max);
    } else if (r->s->by == GROUP_ZONE) {
        buf_puts(b, ",,,,,,,,,,");
    }
}
