#include "report/official_csv.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/digits.h"
#include "base/format.h"

#define WRITE_AT 65536u
#define MESSAGES_NONE "There are currently no messages!\n"

/* ---- releases */

#define RELEASE(MAJOR, MINOR, PATCH) ((MAJOR)*1000000 + (MINOR)*1000 + (PATCH))

/* Features by the version of the development tree that introduced them. */
static struct csv_release release_of(long version)
{
    return (struct csv_release){.messages = version >= RELEASE(0, 9, 2),
                                .gpu = version >= RELEASE(0, 11, 2),
                                .zone_texts = version >= RELEASE(0, 12, 0),
                                .percentiles = version >= RELEASE(0, 13, 1)};
}

struct csv_release csv_release_newest(void)
{
    return release_of(RELEASE(0, 14, 0));
}

/* Parses up to three decimal numbers below 1000, separated by dots. */
static bool parse_version(const char *p, long *version)
{
    long parts[3] = {0};
    for (int i = 0; i < 3; i++) {
        if (*p < '0' || *p > '9')
            return false;
        while (*p >= '0' && *p <= '9' && parts[i] < 1000)
            parts[i] = parts[i] * 10 + (*p++ - '0');
        if (parts[i] >= 1000)
            return false;
        if (*p == 0) {
            *version = RELEASE(parts[0], parts[1], parts[2]);
            return i > 0;
        }
        if (*p++ != '.')
            return false;
    }
    return false;
}

int csv_release_parse(const char *tag, struct csv_release *r, struct err *e)
{
    long version;
    if (!parse_version(tag[0] == 'v' ? tag + 1 : tag, &version) || version < RELEASE(0, 9, 0) ||
        version > RELEASE(0, 14, 0))
        return err_set(e, ERR_USAGE, "--compat takes a release from v0.9.0 to v0.14.0, not '%s'",
                       tag);
    *r = release_of(version);
    return 0;
}

/* ---- fields */

static void put_view(struct official_csv *w, struct view text)
{
    buf_put(&w->buf, text.p, text.len);
}

/* Appends text of the trace to `to`, which may be w->buf. */
static void put_text(struct official_csv *w, struct buf *to, struct view text)
{
    if (w->terminal)
        format_terminal(to, text);
    else
        buf_put(to, text.p, text.len);
}

static void put_separator(struct official_csv *w)
{
    put_view(w, w->separator);
}

/*
 * Reserves room for a row's numbers and separators. The caller fills it and passes the end to
 * end_fields.
 */
static char *begin_fields(struct official_csv *w, size_t numbers, size_t views)
{
    return (char *)buf_reserve(&w->buf, numbers * DIGITS_ROOM + views);
}

static void end_fields(struct official_csv *w, const char *p)
{
    w->buf.len = (size_t)((const uint8_t *)p - w->buf.data);
}

static char *copy_view(char *p, struct view text)
{
    if (text.len > 0)
        memcpy(p, text.p, text.len);
    return p + text.len;
}

static void put_u64(struct official_csv *w, uint64_t n)
{
    char *p = begin_fields(w, 1, 0);
    if (p)
        end_fields(w, digits_u64(p, n));
}

static void put_i64(struct official_csv *w, int64_t n)
{
    char *p = begin_fields(w, 1, 0);
    if (p)
        end_fields(w, digits_i64(p, n));
}

/* Six decimals. NaN is negative, as on the processors that the official tools run on. */
static char *copy_double(char *p, double x)
{
    return isnan(x) ? copy_view(p, view_of("-nan")) : digits_f64(p, x);
}

static void put_double(struct official_csv *w, double x)
{
    char *p = begin_fields(w, 1, 0);
    if (p)
        end_fields(w, copy_double(p, x));
}

static int end_row(struct official_csv *w, struct err *e)
{
    buf_put(&w->buf, "\n", 1);
    if (w->buf.failed)
        return err_no_memory(e, "a row");
    if (w->buf.len < WRITE_AT)
        return 0;
    size_t done = fwrite(w->buf.data, 1, w->buf.len, w->out);
    if (done < w->buf.len)
        return err_errno(e, ERR_OUTPUT, "cannot write to standard output");
    buf_clear(&w->buf);
    return 0;
}

/* ---- rows */

static void put_columns(struct official_csv *w, const char *const *columns, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            put_separator(w);
        buf_puts(&w->buf, columns[i]);
    }
}

static int begin(void *ctx, uint64_t messages, struct err *e)
{
    static const char *const message_columns[] = {"MessageName", "total_ns"};
    static const char *const gpu_columns[] = {"name", "src_file", "Time from start of program",
                                              "GPU execution time"};
    static const char *const zone_columns[] = {
        "name", "src_file", "src_line", "ns_since_start", "exec_time_ns", "thread", "value"};
    static const char *const stat_columns[] = {
        "name",    "src_file", "src_line", "total_ns", "total_perc",    "counts",
        "mean_ns", "min_ns",   "max_ns",   "std_ns",   "percentile_ns", "truncated_mean_ns"};
    struct official_csv *w = ctx;
    switch (w->kind) {
    case EXPORT_MESSAGES:
        if (messages == 0) {
            buf_put(&w->buf, MESSAGES_NONE, sizeof MESSAGES_NONE - 1);
            return 0;
        }
        put_columns(w, message_columns, 2);
        break;
    case EXPORT_GPU_ZONES:
        put_columns(w, gpu_columns, 4);
        break;
    case EXPORT_ZONES:
        put_columns(w, zone_columns, w->release.gpu ? 7 : w->release.messages ? 6 : 5);
        break;
    case EXPORT_ZONE_STATS:
        put_columns(w, stat_columns, w->percentiles ? 12 : 10);
        break;
    }
    return end_row(w, e);
}

static void put_place(struct official_csv *w, const struct export_place *p)
{
    put_text(w, &w->buf, p->name);
    put_separator(w);
    put_text(w, &w->buf, p->file);
    put_separator(w);
}

static void put_field(struct official_csv *w, int64_t n)
{
    put_i64(w, n);
    put_separator(w);
}

/*
 * Uses the official types: the mean is an unsigned division, its square may wrap, and rounding may
 * make the root's argument negative.
 */
static double deviation(const struct official_csv *w, const struct zone_figures *f, uint64_t mean)
{
    double squares =
        f->sum_squares - 2. * (double)f->total * (double)mean + (double)(mean * mean * f->count);
    if (f->count <= 1 && w->release.messages)
        return 0;
    return sqrt(squares / (double)(f->count - 1));
}

static int stat_row(void *ctx, const struct export_place *p, const struct zone_figures *f,
                    int64_t last_time, struct err *e)
{
    struct official_csv *w = ctx;
    int64_t time = w->self ? f->self_total : f->total;
    uint64_t mean = (uint64_t)time / f->count;
    put_place(w, p);
    put_field(w, p->line);
    put_field(w, time);
    put_double(w, 100. * (double)time / (double)last_time);
    put_separator(w);
    put_u64(w, f->count);
    put_separator(w);
    put_u64(w, mean);
    put_separator(w);
    put_field(w, w->self ? f->self_min : f->min);
    put_field(w, w->self ? f->self_max : f->max);
    put_double(w, deviation(w, f, mean));
    if (w->percentiles) {
        put_separator(w);
        put_field(w, f->percentile);
        put_i64(w, f->truncated_mean);
    }
    return end_row(w, e);
}

/* The columns shared by all zones of a source location. */
static void set_prefix(struct official_csv *w, const struct export_place *p)
{
    struct buf row = w->buf;
    if (w->any && w->rank == p->rank)
        return;
    w->any = true;
    w->rank = p->rank;
    buf_clear(&w->value);
    buf_clear(&w->prefix);
    w->buf = w->prefix;
    put_place(w, p);
    put_field(w, p->line);
    w->prefix = w->buf;
    w->buf = row;
    w->buf.failed |= w->prefix.failed;
}

/*
 * Zones without a text repeat the previous text of their source location, as the official tool
 * does.
 */
static void keep_value(struct official_csv *w, struct view text)
{
    if (text.p) {
        buf_clear(&w->value);
        put_text(w, &w->value, text);
        w->buf.failed |= w->value.failed;
    }
}

static int zone_row(void *ctx, const struct export_place *p, const struct zone_row *z,
                    struct view text, struct err *e)
{
    struct official_csv *w = ctx;
    set_prefix(w, p);
    char *to = begin_fields(w, 3, w->prefix.len + 3 * w->separator.len);
    if (to) {
        to = copy_view(to, (struct view){(const char *)w->prefix.data, w->prefix.len});
        to = copy_view(digits_i64(to, z->start), w->separator);
        to = digits_i64(to, z->span);
        if (w->release.messages)
            to = digits_u64(copy_view(to, w->separator), z->thread);
        end_fields(w, w->release.gpu ? copy_view(to, w->separator) : to);
    }
    if (w->release.zone_texts) {
        keep_value(w, text);
        buf_put(&w->buf, w->value.data, w->value.len);
    }
    return end_row(w, e);
}

static int gpu_row(void *ctx, const struct export_place *p, const struct zone_row *z, struct err *e)
{
    struct official_csv *w = ctx;
    put_place(w, p);
    put_field(w, z->start);
    put_i64(w, z->span);
    return end_row(w, e);
}

static int message_row(void *ctx, struct view text, int64_t time, struct err *e)
{
    struct official_csv *w = ctx;
    put_text(w, &w->buf, text);
    put_separator(w);
    put_i64(w, time);
    return end_row(w, e);
}

/* The plot's name and the empty columns beside the time are the same in all rows. */
static void set_point_prefix(struct official_csv *w, struct view plot)
{
    buf_clear(&w->value);
    for (int column = 0; column < 3; column++)
        buf_put(&w->value, w->separator.p, w->separator.len);
    buf_clear(&w->prefix);
    put_text(w, &w->prefix, plot);
    buf_put(&w->prefix, w->value.data, w->value.len);
    w->buf.failed |= w->prefix.failed | w->value.failed;
    w->any = false;
}

static int point_rows(void *ctx, struct view plot, const struct listed_point *points, size_t n,
                      struct err *e)
{
    struct official_csv *w = ctx;
    set_point_prefix(w, plot);
    const struct view before = {(const char *)w->prefix.data, w->prefix.len};
    const struct view between = {(const char *)w->value.data, w->value.len};
    for (size_t i = 0; i < n; i++) {
        char *p = begin_fields(w, 2, before.len + between.len);
        if (p) {
            p = digits_i64(copy_view(p, before), points[i].time);
            p = copy_double(copy_view(p, between), points[i].value);
            end_fields(w, p);
        }
        if (end_row(w, e) != 0)
            return -1;
    }
    return 0;
}

struct export_rows official_csv_rows(struct official_csv *w)
{
    return (struct export_rows){w, begin, stat_row, zone_row, gpu_row, message_row, point_rows};
}

int official_csv_finish(struct official_csv *w, struct err *e)
{
    if (w->buf.failed)
        return err_no_memory(e, "a row");
    if (fwrite(w->buf.data, 1, w->buf.len, w->out) < w->buf.len || fflush(w->out) != 0)
        return err_errno(e, ERR_OUTPUT, "cannot write to standard output");
    buf_clear(&w->buf);
    return 0;
}

void official_csv_release(struct official_csv *w)
{
    buf_release(&w->buf);
    buf_release(&w->prefix);
    buf_release(&w->value);
}
