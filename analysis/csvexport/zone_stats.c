#include "analysis/csvexport/zone_stats.h"

#include <math.h>
#include <stdlib.h>

#include "analysis/csvexport/zone_groups.h"

#define NUMBER_BITS 48
#define BUFFER_BYTES ((size_t)16 << 20) /* of each sorter; as much again while sorting */

/* Durations of nested zones that are kept in memory: 16 MiB, and as much again while they grow. */
#define WAITING_MAX ((size_t)2 << 20)
#define SPANS_KEPT 64 /* room that a location keeps after its outermost zone has ended */

struct span_record {
    int64_t location; /* as unsigned */
    int64_t span;
};

struct square_record {
    int64_t place; /* location, then number of the zone among those of the location */
    int64_t span;
};

int zone_stats_init(struct zone_stats *s, int percent, bool self, const char *dir, struct err *e)
{
    *s = (struct zone_stats){.self = self, .percent = percent, .waiting_max = WAITING_MAX};
    spill_init(&s->squares, sizeof(struct square_record),
               BUFFER_BYTES / sizeof(struct square_record), dir);
    spill_init(&s->spans, sizeof(struct span_record), BUFFER_BYTES / sizeof(struct span_record),
               dir);
    s->at = calloc(ZONE_GROUPS_MAX, sizeof *s->at);
    return s->at ? 0 : err_no_memory(e, "figures of zones");
}

void zone_stats_release(struct zone_stats *s)
{
    for (size_t i = 0; i < s->nested.len; i++)
        vec_release(&s->at[s->nested.at[i]].spans);
    vec_release(&s->nested);
    free(s->at);
    spill_release(&s->squares);
    spill_release(&s->spans);
    *s = (struct zone_stats){0};
}

static void count_span(struct zone_figures *f, int64_t span, int64_t self)
{
    if (f->count++ == 0) {
        f->min = f->max = span;
        f->self_min = f->self_max = self;
    }
    f->min = span < f->min ? span : f->min;
    f->max = span > f->max ? span : f->max;
    f->total = wrapping_sum(f->total, span);
    f->self_min = self < f->self_min ? self : f->self_min;
    f->self_max = self > f->self_max ? self : f->self_max;
    f->self_total = wrapping_sum(f->self_total, self);
}

static int spill_square(struct zone_stats *s, int16_t srcloc, uint64_t number, int64_t span,
                        struct err *e)
{
    uint64_t place = (uint64_t)(uint16_t)srcloc << NUMBER_BITS | number;
    struct square_record r = {(int64_t)place, span};
    return spill_add(&s->squares, &r, 1, e);
}

/* From now on the durations of a location are sorted; all zones added before started earlier. */
static int sort_location(struct zone_stats *s, int16_t srcloc, struct err *e)
{
    struct zone_figures *f = zone_stats_of(s, srcloc);
    for (size_t i = 0; i < f->spans.len; i++) {
        if (spill_square(s, srcloc, f->outermost + i, f->spans.at[i], e) != 0)
            return -1;
    }
    s->waiting -= f->spans.len;
    vec_release(&f->spans);
    f->sorted = true;
    return 0;
}

/*
 * Squares must be added in order of zone starts. That is the order of ends until a zone is nested
 * in another one of its location: then the durations wait until the outermost one has ended. Those
 * that do not fit in memory are sorted.
 */
int zone_stats_nested(struct zone_stats *s, int16_t srcloc, struct err *e)
{
    struct zone_figures *f = zone_stats_of(s, srcloc);
    size_t n = (size_t)(f->begun - f->outermost);
    if (f->sorted)
        return 0;
    if (s->waiting + n - f->spans.len > s->waiting_max)
        return sort_location(s, srcloc, e);
    if ((!f->listed && !vec_push(&s->nested, (uint16_t)srcloc)) || !vec_reserve(&f->spans, n))
        return err_no_memory(e, "figures of zones");
    f->listed = true;
    s->waiting += n - f->spans.len;
    while (f->spans.len < n)
        f->spans.at[f->spans.len++] = 0;
    return 0;
}

static void add_square(struct zone_figures *f, int64_t span)
{
    f->sum_squares += (double)span * (double)span;
}

/* The outermost zone has ended. Zones that do not count have duration 0, which adds nothing. */
static void add_waiting(struct zone_stats *s, struct zone_figures *f)
{
    for (size_t i = 0; i < f->spans.len; i++)
        add_square(f, f->spans.at[i]);
    s->waiting -= f->spans.len;
    f->spans.len = 0;
    if (f->spans.cap > SPANS_KEPT)
        vec_release(&f->spans);
}

static int keep_square(struct zone_stats *s, struct zone_figures *f, const struct walked_zone *z,
                       int64_t span, struct err *e)
{
    if (f->sorted)
        return spill_square(s, z->srcloc, z->number, span, e);
    if (f->spans.len == 0)
        add_square(f, span);
    else
        f->spans.at[z->number - f->outermost] = span;
    return 0;
}

static int count_zone(struct zone_stats *s, struct zone_figures *f, const struct walked_zone *z,
                      int64_t span, struct err *e)
{
    count_span(f, span, (int64_t)((uint64_t)span - (uint64_t)z->ended_children));
    if (keep_square(s, f, z, span, e) != 0)
        return -1;
    if (s->percent == 0)
        return 0;
    struct span_record r = {(uint16_t)z->srcloc,
                            s->self ? (int64_t)((uint64_t)span - (uint64_t)z->children) : span};
    return spill_add(&s->spans, &r, 1, e);
}

int zone_stats_end(struct zone_stats *s, const struct walked_zone *z, struct err *e)
{
    struct zone_figures *f = zone_stats_of(s, z->srcloc);
    int64_t span = z->end - z->start;
    int status = z->end < 0 || span <= 0 ? 0 : count_zone(s, f, z, span, e);
    if (--f->open == 0)
        add_waiting(s, f);
    return status;
}

static int put_squares(void *ctx, const void *recs, size_t n, struct err *e)
{
    struct zone_stats *s = ctx;
    const struct square_record *r = recs;
    (void)e;
    for (size_t i = 0; i < n; i++) {
        uint16_t location = (uint16_t)((uint64_t)r[i].place >> NUMBER_BITS);
        s->at[location].sum_squares += (double)r[i].span * (double)r[i].span;
    }
    return 0;
}

/* ---- percentiles */

void percentile_start(struct percentile *p, double part, uint64_t n)
{
    double index = part * ((double)n - 1.0);
    uint64_t low = (uint64_t)floor(index);
    *p = (struct percentile){
        .n = n, .low = low, .high = low + 1 < n ? low + 1 : n - 1, .fraction = index - (double)low};
}

void percentile_add(struct percentile *p, int64_t value)
{
    uint64_t at = p->seen++;
    if (at == p->low)
        p->at_low = (double)value;
    if (at == p->high)
        p->bound = p->at_low + ((double)value - p->at_low) * p->fraction;
    if (at <= p->low || (at >= p->high && (double)value <= p->bound)) {
        p->sum += (uint64_t)value;
        p->counted++;
    }
}

int64_t percentile_value(const struct percentile *p)
{
    return (int64_t)llround(p->bound);
}

/* Unsigned division, as in the official tool. */
int64_t percentile_truncated_mean(const struct percentile *p)
{
    return p->counted ? (int64_t)(p->sum / p->counted) : 0;
}

/* Sorts the spans of one location after another. */
struct percentile_pass {
    struct zone_stats *stats;
    struct spill sorted; /* the values of `location` */
    struct percentile figures;
    int64_t location; /* -1: none yet */
};

static int put_values(void *ctx, const void *recs, size_t n, struct err *e)
{
    struct percentile_pass *pass = ctx;
    const int64_t *values = recs;
    (void)e;
    for (size_t i = 0; i < n; i++)
        percentile_add(&pass->figures, values[i]);
    return 0;
}

static int close_location(struct percentile_pass *pass, struct err *e)
{
    if (pass->location < 0)
        return 0;
    struct zone_figures *f = &pass->stats->at[pass->location];
    percentile_start(&pass->figures, pass->stats->percent / 100.0, f->count);
    if (spill_drain(&pass->sorted, put_values, pass, e) != 0)
        return -1;
    f->percentile = percentile_value(&pass->figures);
    f->truncated_mean = percentile_truncated_mean(&pass->figures);
    return 0;
}

static int put_spans(void *ctx, const void *recs, size_t n, struct err *e)
{
    struct percentile_pass *pass = ctx;
    const struct span_record *r = recs;
    for (size_t i = 0; i < n; i++) {
        if (r[i].location != pass->location) {
            if (close_location(pass, e) != 0)
                return -1;
            pass->location = r[i].location;
        }
        if (spill_add(&pass->sorted, &r[i].span, 1, e) != 0)
            return -1;
    }
    return 0;
}

int zone_stats_finish(struct zone_stats *s, struct err *e)
{
    if (spill_drain(&s->squares, put_squares, s, e) != 0)
        return -1;
    spill_release(&s->squares);
    if (s->percent == 0)
        return 0;
    struct percentile_pass pass = {.stats = s, .location = -1};
    spill_init(&pass.sorted, sizeof(int64_t), BUFFER_BYTES / sizeof(int64_t), s->spans.dir);
    int status = spill_drain(&s->spans, put_spans, &pass, e);
    if (status == 0)
        status = close_location(&pass, e);
    spill_release(&pass.sorted);
    return status;
}
