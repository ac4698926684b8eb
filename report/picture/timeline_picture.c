#include "report/picture/timeline_picture.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/format.h"
#include "report/write/axis.h"

#define WIDTH 960.0
#define LEFT 92.0
#define RIGHT 28.0
#define PLOT (WIDTH - LEFT - RIGHT)
#define BYTES_TOP 84.0
#define BYTES_HEIGHT 280.0
#define COUNT_TOP (BYTES_TOP + BYTES_HEIGHT + 36)
#define COUNT_HEIGHT 84.0
#define LEGEND_TOP (COUNT_TOP + COUNT_HEIGHT + 60)
#define LEGEND_ROW 20.0
#define POOLS_MAX_DRAWN 12u
#define NAME_CHARS 44u
#define RESIDENT "resident (RSS of the process)"

/*
 * The palette of Okabe and Ito, which colour-blind people can distinguish. Further lines are
 * dashed.
 */
static const uint32_t colours[] = {0x1c7fc0, 0xe69f00, 0x009e73, 0xd55e00, 0xcc79a7, 0x56b4e9};
#define COLOURS (sizeof colours / sizeof *colours)

struct drawing {
    struct canvas canvas;
    const struct timeline *t;
    const struct timeline_series **order; /* highest peak first */
    size_t drawn;
    struct axis time;
    bool failed;
};

static const struct canvas_text small = {.size = 12, .colour = CANVAS_MUTED};
static const struct canvas_line resident_line = {CANVAS_INK, 1.4, 3};
static const struct canvas_text small_right = {
    .size = 12, .colour = CANVAS_MUTED, .anchor = CANVAS_END};

/* ---- figures */

static const struct timeline_bucket *highest(const struct timeline *t,
                                             const struct timeline_series *s)
{
    const struct timeline_bucket *best = &s->buckets[0];
    for (size_t i = 1; i < t->count; i++)
        best = s->buckets[i].high > best->high ? &s->buckets[i] : best;
    return best;
}

static uint64_t value_of(const struct timeline_bucket *b, bool count)
{
    return count ? b->high_live : b->high;
}

static const struct kernel_bucket *kernel_at(const struct drawing *d, size_t i)
{
    const struct kernel_curve *k = &d->t->kernel;
    return k->buckets && k->buckets[i].known ? &k->buckets[i] : NULL;
}

/* NULL: what was resident is not known. */
static const struct kernel_reading *highest_resident(const struct drawing *d)
{
    const struct kernel_reading *most = NULL;
    for (size_t i = 0; i < d->t->count; i++) {
        const struct kernel_bucket *b = kernel_at(d, i);
        if (b && (!most || b->high.resident > most->resident))
            most = &b->high;
    }
    return most;
}

static uint64_t most_of(const struct drawing *d, bool count)
{
    const struct kernel_reading *resident = count ? NULL : highest_resident(d);
    uint64_t most = resident ? resident->resident : 0;
    for (size_t i = 0; i < d->drawn; i++) {
        for (size_t k = 0; k < d->t->count; k++) {
            uint64_t n = value_of(&d->order[i]->buckets[k], count);
            most = n > most ? n : most;
        }
    }
    return most;
}

struct ranked {
    const struct timeline_series *series;
    uint64_t peak;
};

static int compare_ranked(const void *a, const void *b)
{
    const struct ranked *x = a;
    const struct ranked *y = b;
    if (x->peak != y->peak)
        return x->peak > y->peak ? -1 : 1;
    return x->series < y->series ? -1 : 1;
}

static bool choose_series(struct drawing *d)
{
    size_t n = d->t->series.len;
    struct ranked *all = calloc(n + 1, sizeof *all);
    d->order = calloc(n + 1, sizeof *d->order);
    for (size_t i = 0; i < n && all && d->order; i++) {
        const struct timeline_series *s = &d->t->series.at[i];
        all[i] = (struct ranked){s, highest(d->t, s)->high};
    }
    bool ok = all && d->order;
    if (ok && n)
        qsort(all, n, sizeof *all, compare_ranked);
    d->drawn = n < POOLS_MAX_DRAWN ? n : POOLS_MAX_DRAWN;
    for (size_t i = 0; i < d->drawn && ok; i++)
        d->order[i] = all[i].series;
    free(all);
    return ok;
}

/* ---- positions */

static double x_of(const struct drawing *d, int64_t time)
{
    double length = (double)d->t->end - (double)d->t->begin;
    return LEFT + ((double)time - (double)d->t->begin) / length * PLOT;
}

struct panel {
    double top, height;
    struct axis axis;
    bool count;
};

static double y_of(const struct panel *p, uint64_t value)
{
    double part = (double)value / (double)p->axis.end;
    return p->top + p->height - (part < 1 ? part : 1) * p->height;
}

/* ---- axes */

static void draw_mark(struct drawing *d, const struct panel *p, unsigned i)
{
    char label[FORMAT_SIZE];
    char attributes[64];
    double y = y_of(p, (uint64_t)axis_mark(&p->axis, i));
    const struct point line[] = {{LEFT, y}, {WIDTH - RIGHT, y}};
    snprintf(attributes, sizeof attributes, "data-value=\"%" PRId64 "\"", axis_mark(&p->axis, i));
    canvas_group(&d->canvas, p->count ? "mark blocks" : "mark bytes", view_of(""), attributes);
    canvas_line(&d->canvas, line, 2, &(struct canvas_line){CANVAS_GRID, 1, 0});
    canvas_text(&d->canvas, LEFT - 8, y + 4, &small_right, view_of(axis_label(label, &p->axis, i)));
    canvas_group_end(&d->canvas);
}

static void draw_panel(struct drawing *d, const struct panel *p, const char *title)
{
    canvas_rect(&d->canvas, LEFT, p->top, PLOT, p->height, CANVAS_PANEL,
                d->canvas.format == PICTURE_SVG ? 0.5 : 1);
    for (unsigned i = 0; i < p->axis.marks; i++)
        draw_mark(d, p, i);
    canvas_text(&d->canvas, LEFT, p->top - 9, &small, view_of(title));
    for (unsigned i = 0; i < d->time.marks; i++) {
        double x = x_of(d, axis_mark(&d->time, i));
        const struct point line[] = {{x, p->top}, {x, p->top + p->height}};
        canvas_line(&d->canvas, line, 2, &(struct canvas_line){CANVAS_GRID, 1, 0});
    }
}

static void draw_times(struct drawing *d)
{
    struct canvas_text how = small;
    char label[FORMAT_SIZE];
    double y = COUNT_TOP + COUNT_HEIGHT + 17;
    how.anchor = CANVAS_MIDDLE;
    for (unsigned i = 0; i < d->time.marks; i++) {
        char attributes[64];
        snprintf(attributes, sizeof attributes, "data-ns=\"%" PRId64 "\"", axis_mark(&d->time, i));
        canvas_group(&d->canvas, "mark time", view_of(""), attributes);
        canvas_text(&d->canvas, x_of(d, axis_mark(&d->time, i)), y, &how,
                    view_of(axis_label(label, &d->time, i)));
        canvas_group_end(&d->canvas);
    }
    canvas_text(&d->canvas, LEFT + PLOT / 2, y + 17, &how, view_of("time since the trace began"));
}

/* ---- pools */

static uint32_t colour_of(size_t i)
{
    return colours[i % COLOURS];
}

static double dash_of(size_t i)
{
    return i < COLOURS ? 0 : 5;
}

/* "pool default: peak 8.00 MiB (8,388,608) at 12 ms, 218 KiB in use at the end" */
static void put_title(struct drawing *d, struct buf *out, const struct timeline_series *s)
{
    const struct timeline_bucket *peak = highest(d->t, s);
    const struct timeline_bucket *end = &s->buckets[d->t->count - 1];
    char text[FORMAT_SIZE];
    buf_puts(out, "pool ");
    buf_put(out, s->name.p, s->name.len);
    buf_printf(out, ": peak %s", format_bytes_exact(text, peak->high));
    if (peak->high)
        buf_printf(out, " at %s", format_duration(text, peak->high_time));
    buf_printf(out, ", %s in use at the end", format_bytes_exact(text, end->last));
    buf_printf(out, " in %s", format_counted(text, end->last_live, "block"));
    d->failed |= out->failed;
}

/*
 * The upper edge: each time interval is as high as its highest use. It has two points per interval,
 * and two more that close the area below.
 */
static struct point *outline(struct drawing *d, const struct panel *p,
                             const struct timeline_series *s)
{
    struct point *points = calloc(2 * d->t->count + 2, sizeof *points);
    size_t n = 0;
    if (!points) {
        d->failed = true;
        return NULL;
    }
    for (size_t i = 0; i < d->t->count; i++) {
        double y = y_of(p, value_of(&s->buckets[i], p->count));
        points[n++] = (struct point){x_of(d, timeline_time(d->t, i)), y};
        points[n++] = (struct point){x_of(d, timeline_time(d->t, i + 1)), y};
    }
    points[n++] = (struct point){WIDTH - RIGHT, p->top + p->height};
    points[n] = (struct point){LEFT, p->top + p->height};
    return points;
}

/* Areas are below all lines, and fainter the more there are. */
static void draw_area(struct drawing *d, const struct panel *p, size_t i)
{
    struct point *points = outline(d, p, d->order[i]);
    double opacity = d->drawn > 3 ? 0.5 / (double)d->drawn : 0.16;
    canvas_group(&d->canvas, "area", view_of(""), NULL);
    if (points)
        canvas_area(&d->canvas, points, 2 * d->t->count + 2, colour_of(i), opacity);
    canvas_group_end(&d->canvas);
    free(points);
}

static void draw_line(struct drawing *d, const struct panel *p, size_t i)
{
    const struct timeline_series *s = d->order[i];
    const struct timeline_bucket *peak = highest(d->t, s);
    struct point *points = outline(d, p, s);
    struct buf title = {0};
    char attributes[160];
    put_title(d, &title, s);
    snprintf(attributes, sizeof attributes,
             "data-peak-bytes=\"%" PRIu64 "\" data-peak-ns=\"%" PRId64
             "\" data-last-bytes=\"%" PRIu64 "\"",
             peak->high, peak->high_time, s->buckets[d->t->count - 1].last);
    canvas_group(&d->canvas, p->count ? "blocks" : "pool",
                 (struct view){title.data ? (const char *)title.data : "", title.len},
                 p->count ? NULL : attributes);
    if (points)
        canvas_line(&d->canvas, points, 2 * d->t->count,
                    &(struct canvas_line){colour_of(i), 1.6, dash_of(i)});
    canvas_group_end(&d->canvas);
    buf_release(&title);
    free(points);
}

/* The RSS of the process, on the axis of the bytes in use; gaps where it is not known. */
static void draw_resident(struct drawing *d, const struct panel *p)
{
    const struct kernel_reading *high = highest_resident(d);
    struct point *points = high ? calloc(2 * d->t->count, sizeof *points) : NULL;
    size_t n = 0;
    char attributes[96];
    if (!points) {
        d->failed |= high != NULL;
        return;
    }
    snprintf(attributes, sizeof attributes,
             "data-peak-bytes=\"%" PRIu64 "\" data-peak-ns=\"%" PRId64 "\"", high->resident,
             high->time);
    canvas_group(&d->canvas, "resident", view_of(RESIDENT), attributes);
    for (size_t i = 0; i <= d->t->count; i++) {
        const struct kernel_bucket *b = i < d->t->count ? kernel_at(d, i) : NULL;
        if (b) {
            double y = y_of(p, b->high.resident);
            points[n++] = (struct point){x_of(d, timeline_time(d->t, i)), y};
            points[n++] = (struct point){x_of(d, timeline_time(d->t, i + 1)), y};
        } else if (n) {
            canvas_line(&d->canvas, points, n, &resident_line);
            n = 0;
        }
    }
    canvas_group_end(&d->canvas);
    free(points);
}

static void draw_peak(struct drawing *d, const struct panel *p, size_t i)
{
    const struct timeline_bucket *peak = highest(d->t, d->order[i]);
    char bytes[FORMAT_SIZE];
    char time[FORMAT_SIZE];
    char text[3 * FORMAT_SIZE];
    if (peak->high == 0)
        return;
    double x = x_of(d, peak->high_time);
    double y = y_of(p, peak->high);
    const struct point mark[] = {{x, y - 5}, {x + 5, y}, {x, y + 5}, {x - 5, y}};
    canvas_area(&d->canvas, mark, 4, colour_of(i), 1);
    if (i)
        return;
    snprintf(text, sizeof text, "peak %s at %s", format_bytes(bytes, peak->high),
             format_duration(time, peak->high_time));
    bool left = x > LEFT + PLOT - 210;
    const struct canvas_text how = {
        .size = 12, .bold = true, .colour = CANVAS_INK, .anchor = left ? CANVAS_END : CANVAS_START};
    canvas_group(&d->canvas, "peak", view_of(""), NULL);
    canvas_text(&d->canvas, left ? x - 10 : x + 10, y < p->top + 12 ? y + 14 : y - 6, &how,
                view_of(text));
    canvas_group_end(&d->canvas);
}

/* ---- head and legend */

static void legend_row(struct drawing *d, size_t i)
{
    const struct timeline_series *s = d->order[i];
    const struct timeline_bucket *peak = highest(d->t, s);
    const struct timeline_bucket *end = &s->buckets[d->t->count - 1];
    const struct canvas_text name_how = {.size = 12, .bold = true, .colour = CANVAS_INK};
    double y = LEGEND_TOP + LEGEND_ROW * (double)i;
    const struct point line[] = {{LEFT, y - 4}, {LEFT + 22, y - 4}};
    struct buf name = {0};
    char text[3 * FORMAT_SIZE];
    char a[FORMAT_SIZE];
    char b[FORMAT_SIZE];
    canvas_line(&d->canvas, line, 2, &(struct canvas_line){colour_of(i), 4, dash_of(i)});
    canvas_shorten(&name, s->name, NAME_CHARS);
    canvas_text(&d->canvas, LEFT + 32, y, &name_how,
                (struct view){name.data ? (const char *)name.data : "", name.len});
    buf_end(&name, &d->failed);
    snprintf(text, sizeof text, "peak %s%s%s", format_bytes(a, peak->high),
             peak->high ? " at " : "", peak->high ? format_duration(b, peak->high_time) : "");
    canvas_text(&d->canvas, LEFT + 380, y, &small, view_of(text));
    snprintf(text, sizeof text, "at the end %s in %s", format_bytes(a, end->last),
             format_counted(b, end->last_live, "block"));
    canvas_text(&d->canvas, LEFT + 600, y, &small, view_of(text));
}

static void legend_resident(struct drawing *d, double y)
{
    const struct kernel_reading *high = highest_resident(d), *last = &d->t->kernel.last;
    const struct point line[] = {{LEFT, y - 4}, {LEFT + 22, y - 4}};
    const struct canvas_text name = {.size = 12, .bold = true, .colour = CANVAS_INK};
    char text[3 * FORMAT_SIZE], a[FORMAT_SIZE], b[FORMAT_SIZE];
    canvas_line(&d->canvas, line, 2, &resident_line);
    canvas_text(&d->canvas, LEFT + 32, y, &name, view_of(RESIDENT));
    snprintf(text, sizeof text, "highest %s at %s", format_bytes(a, high->resident),
             format_duration(b, high->time));
    canvas_text(&d->canvas, LEFT + 380, y, &small, view_of(text));
    snprintf(text, sizeof text, "last %s, and %s swapped", format_bytes(a, last->resident),
             format_bytes(b, last->swapped));
    canvas_text(&d->canvas, LEFT + 600, y, &small, view_of(text));
}

static void draw_legend(struct drawing *d)
{
    char text[FORMAT_SIZE];
    char line[3 * FORMAT_SIZE];
    canvas_group(&d->canvas, "legend", view_of(""), NULL);
    for (size_t i = 0; i < d->drawn; i++)
        legend_row(d, i);
    if (d->drawn < d->t->series.len) {
        snprintf(line, sizeof line, "%s with lower peaks not drawn (--pool NAME, --together)",
                 format_counted(text, d->t->series.len - d->drawn, "more pool"));
        canvas_text(&d->canvas, LEFT + 32, LEGEND_TOP + LEGEND_ROW * (double)d->drawn, &small,
                    view_of(line));
    }
    if (highest_resident(d))
        legend_resident(d, LEGEND_TOP +
                               LEGEND_ROW * (double)(d->drawn + (d->drawn < d->t->series.len)));
    canvas_group_end(&d->canvas);
}

static void put_heading(struct buf *title, const struct trace *trace)
{
    struct view program = strings_get(&trace->strings, trace->facts.program);
    buf_puts(title, "Memory in use");
    if (program.len) {
        buf_puts(title, " by ");
        buf_put(title, program.p, program.len);
    }
}

static void put_description(struct drawing *d, struct buf *out)
{
    char begin[FORMAT_SIZE];
    char end[FORMAT_SIZE];
    buf_printf(out, "From %s to %s, the highest of each of %zu pieces of time. ",
               format_duration(begin, d->t->begin), format_duration(end, d->t->end), d->t->count);
    if (d->drawn == 0)
        buf_puts(out, "There is no memory data.");
    for (size_t i = 0; i < d->drawn; i++) {
        put_title(d, out, d->order[i]);
        buf_puts(out, i + 1 < d->drawn ? "; " : ".");
    }
    const struct kernel_reading *high = highest_resident(d);
    if (high)
        buf_printf(out,
                   " The dashed line is what was resident, the RSS of the process: at most %s "
                   "at %s.",
                   format_bytes_exact(begin, high->resident), format_duration(end, high->time));
}

static void draw_head(struct drawing *d, const struct buf *heading)
{
    struct buf name = {0};
    char line[4 * FORMAT_SIZE];
    char begin[FORMAT_SIZE];
    char end[FORMAT_SIZE];
    char piece[FORMAT_SIZE];
    canvas_shorten(&name, (struct view){(const char *)heading->data, heading->len}, NAME_CHARS);
    canvas_text(&d->canvas, LEFT, 30,
                &(struct canvas_text){.size = 18, .bold = true, .colour = CANVAS_INK},
                (struct view){name.data ? (const char *)name.data : "", name.len});
    snprintf(line, sizeof line, "%s to %s, highest use of each %s",
             format_duration(begin, d->t->begin), format_duration(end, d->t->end),
             format_duration(
                 piece, (int64_t)(((uint64_t)d->t->end - (uint64_t)d->t->begin) / d->t->count)));
    canvas_text(&d->canvas, LEFT, 50, &small, view_of(line));
    buf_end(&name, &d->failed);
}

/* ---- entry point */

static void draw(struct drawing *d)
{
    struct panel bytes = {.top = BYTES_TOP,
                          .height = BYTES_HEIGHT,
                          .axis = axis_of_values(AXIS_BYTES, most_of(d, false))};
    struct panel blocks = {.top = COUNT_TOP,
                           .height = COUNT_HEIGHT,
                           .axis = axis_of_values(AXIS_COUNT, most_of(d, true)),
                           .count = true};
    draw_panel(d, &bytes, highest_resident(d) ? "bytes in use, and resident" : "bytes in use");
    draw_panel(d, &blocks, "blocks in use");
    for (size_t i = d->drawn; i-- > 0;) {
        draw_area(d, &bytes, i);
        draw_area(d, &blocks, i);
    }
    /* The highest line is drawn last, on top. */
    for (size_t i = d->drawn; i-- > 0;) {
        draw_line(d, &bytes, i);
        draw_line(d, &blocks, i);
    }
    draw_resident(d, &bytes);
    for (size_t i = d->drawn; i-- > 0;)
        draw_peak(d, &bytes, i);
    draw_times(d);
    draw_legend(d);
}

int timeline_draw(const struct timeline *t, const struct trace *trace, enum picture_format format,
                  FILE *out, struct err *e)
{
    struct drawing d = {.t = t, .time = axis_of_times(t->begin, t->end, 10)};
    struct buf heading = {0};
    struct buf description = {0};
    if (!choose_series(&d)) {
        free(d.order);
        return err_no_memory(e, "the picture");
    }
    put_heading(&heading, trace);
    put_description(&d, &description);
    size_t rows = d.drawn + (d.drawn < t->series.len) + (highest_resident(&d) != NULL);
    const struct canvas_begin begin = {.format = format,
                                       .width = WIDTH,
                                       .height = LEGEND_TOP + LEGEND_ROW * (double)rows,
                                       .title = &heading,
                                       .description = &description};
    int status = canvas_begin(&d.canvas, &begin, "take fewer pools", out, e);
    if (status == 0) {
        draw_head(&d, &heading);
        draw(&d);
        d.canvas.doc.failed |= d.failed || heading.failed || description.failed;
        status = canvas_end(&d.canvas, e);
    }
    buf_release(&heading);
    buf_release(&description);
    free(d.order);
    return status;
}
