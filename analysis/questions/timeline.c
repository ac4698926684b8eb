#include "analysis/questions/timeline.h"

#include <stdlib.h>

#include "analysis/figures/figures_only.h"
#include "analysis/questions/figure_parts.h"
#include "base/format.h"
#include "base/saturate.h"

int64_t timeline_time(const struct timeline *t, size_t i)
{
    uint64_t length = (uint64_t)t->end - (uint64_t)t->begin;
    uint64_t count = t->count ? t->count : 1;
    /* length * i / count, whose product may overflow; i is at most count. */
    return t->begin + (int64_t)(length / count * i + length % count * i / count);
}

/* The bucket of a time in the window, which is not before that of the last call. */
static size_t bucket_of(const struct timeline *t, struct timeline_series *s, int64_t time)
{
    while (time >= s->bucket_end && s->bucket + 1 < t->count)
        s->bucket_end = timeline_time(t, ++s->bucket + 1);
    return s->bucket;
}

/* The use at the end of s->now counts for its bucket and for the empty ones after it. */
static void settle(const struct timeline *t, struct timeline_series *s, int64_t until)
{
    int64_t from = s->now > t->begin ? s->now : t->begin;
    if (until > t->end)
        until = t->end;
    if (from >= until)
        return;
    size_t first = bucket_of(t, s, from);
    size_t last = bucket_of(t, s, until - 1);
    for (size_t i = first; i <= last; i++) {
        int64_t begin = timeline_time(t, i);
        timeline_bucket_use(&s->buckets[i], from > begin ? from : begin, s->use, s->live);
    }
}

static int take(void *ctx, const struct memory_op *op, struct err *e)
{
    struct timeline *t = ctx;
    struct timeline_series *s = &t->series.at[t->together ? 0 : op->pool];
    (void)e;
    if (op->time > s->now) {
        settle(t, s, op->time);
        s->now = op->time;
    }
    bool is_alloc = op->kind == MEMORY_ALLOC;
    uint64_t size = op->block.size;
    s->any = true;
    s->use = is_alloc ? saturating_add(s->use, size) : saturating_sub(s->use, size);
    s->live += is_alloc ? 1 : UINT64_MAX;
    if (s->now < t->begin || s->now >= t->end)
        return 0;
    struct timeline_bucket *b = &s->buckets[bucket_of(t, s, s->now)];
    b->allocations += is_alloc;
    b->frees += !is_alloc;
    b->allocated = saturating_add(b->allocated, is_alloc ? size : 0);
    b->freed = saturating_add(b->freed, is_alloc ? 0 : size);
    return 0;
}

static int add_series(struct timeline *t, const struct selection *s, struct err *e)
{
    for (size_t i = 0; i < s->pools.len && (i == 0 || !t->together); i++) {
        struct timeline_series series = {.name = t->together ? view_of("all") : s->pools.at[i].name,
                                         .now = INT64_MIN,
                                         .bucket_end = timeline_time(t, 1)};
        series.buckets = calloc(t->count + 1, sizeof *series.buckets);
        if (!series.buckets || !vec_push(&t->series, series)) {
            free(series.buckets);
            return err_no_memory(e, "the timeline");
        }
        for (size_t k = 0; k < t->count; k++)
            series.buckets[k] = TIMELINE_BUCKET_NEW;
    }
    return 0;
}

int timeline_begin(struct timeline *t, const struct selection *s, const struct timeline_options *o,
                   struct err *e)
{
    int64_t end = o->end > o->begin ? o->end : o->begin + 1;
    uint64_t length = (uint64_t)end - (uint64_t)o->begin;
    size_t buckets = o->buckets;
    buckets = buckets < length ? buckets : (size_t)length;
    *t = (struct timeline){.begin = o->begin, .end = end, .together = o->together};
    t->count = buckets ? buckets : 1;
    int status = add_series(t, s, e);
    if (status != 0)
        timeline_release(t);
    return status;
}

/* ---- stretches without events */

#define SAME_RESIDENT 32u /* a part of the highest RSS that is no change */

static uint64_t resident_at(const struct timeline *t, size_t i)
{
    const struct kernel_bucket *b = t->kernel.buckets;
    return b && i < t->kernel.count && b[i].known ? b[i].high.resident : 0;
}

/* Where the stretch without events ends that begins with bucket `i`; `i`: there is none. */
static size_t gap_end(const struct timeline *t, size_t i, uint64_t most)
{
    uint64_t before = resident_at(t, i);
    for (size_t at = i; at < t->count; at++) {
        uint64_t now = resident_at(t, at);
        uint64_t change = now > before ? now - before : before - now;
        if (now && before && change > most / SAME_RESIDENT)
            return at;
        before = before ? before : now;
        for (size_t k = 0; k < t->series.len; k++) {
            if (t->series.at[k].buckets[at].allocations || t->series.at[k].buckets[at].frees)
                return at;
        }
    }
    return t->count;
}

size_t timeline_columns(const struct timeline *t, size_t least, size_t *columns, size_t *gaps)
{
    uint64_t most = 0;
    size_t n = 0;
    *gaps = 0;
    for (size_t i = 0; i < t->count; i++)
        most = resident_at(t, i) > most ? resident_at(t, i) : most;
    for (size_t i = 0; i < t->count; i++) {
        size_t end = gap_end(t, i, most);
        /* A change of the RSS between two stretches has a column. */
        bool gap = end > i && end - i >= least && !(n && columns[n - 1] == TIMELINE_GAP);
        columns[n++] = gap ? TIMELINE_GAP : i;
        *gaps += gap;
        i = gap ? end - 1 : i;
    }
    return n;
}

struct memory_observer timeline_observer(struct timeline *t)
{
    return (struct memory_observer){.ctx = t, .op = take, .beside = true};
}

void timeline_finish(struct timeline *t)
{
    for (size_t i = 0; i < t->series.len; i++)
        settle(t, &t->series.at[i], INT64_MAX);
}

/* ---- of figures only */

static int read_curves(const struct selection *s, struct step_curve *curves, struct err *e)
{
    for (uint32_t i = 0; i < s->trace->memory.pools.len; i++) {
        struct view bytes;
        if (s->pool_of[i] == UINT32_MAX)
            continue;
        if (figures_only_part(s->trace, i, PART_CURVE, &bytes, e) != 0 ||
            (bytes.len && step_curve_decode(&curves[s->pool_of[i]], bytes, e) != 0))
            return -1;
    }
    return 0;
}

/* The window in whole steps, as few as possible in a bucket. *per: how many. */
static int fit_window(struct timeline_options *o, unsigned shift, uint64_t *per, struct err *e)
{
    const uint64_t step = UINT64_C(1) << shift;
    uint64_t begin = o->begin > 0 ? (uint64_t)o->begin : 0;
    uint64_t end = o->end > o->begin ? (uint64_t)o->end : begin + 1;
    char text[FORMAT_SIZE];
    if (end > INT64_MAX / 4 || (end - begin < step && begin > 0))
        return err_set(e, ERR_CHECK, "figures only, no events: their steps have %s",
                       format_duration(text, (int64_t)step));
    uint64_t first = begin >> shift, count = ((end - 1) >> shift) + 1 - first;
    *per = (count + o->buckets - 1) / o->buckets;
    o->buckets = (size_t)((count + *per - 1) / *per);
    o->begin = (int64_t)(first << shift);
    o->end = o->begin + (int64_t)(o->buckets * *per << shift);
    return 0;
}

static int fill(struct timeline *t, struct selection *s, const struct timeline_options *o,
                struct step_curve *curves, struct err *e)
{
    struct timeline_options whole = *o;
    unsigned shift = 0;
    uint64_t per;
    for (size_t i = 0; i < s->pools.len; i++)
        shift = curves[i].shift > shift ? curves[i].shift : shift;
    if (fit_window(&whole, shift, &per, e) != 0 || timeline_begin(t, s, &whole, e) != 0)
        return -1;
    for (size_t i = 0; i < t->series.len; i++) {
        step_curve_coarsen(&curves[i], shift);
        for (size_t k = 0; k < t->count; k++)
            t->series.at[i].buckets[k] =
                step_curve_bucket(&curves[i], ((uint64_t)t->begin >> shift) + k * per, per);
    }
    return 0;
}

static int take_figures(struct timeline *t, struct selection *s, const struct timeline_options *o,
                        struct err *e)
{
    if (selection_figures(s, e) != 0)
        return -1;
    if (o->together && s->pools.len > 1)
        return memory_refuse("the use of several pools together is not known: choose one", e);
    struct step_curve *curves = calloc(s->pools.len + 1, sizeof *curves);
    if (!curves)
        return err_no_memory(e, "the timeline");
    int status = read_curves(s, curves, e);
    if (status == 0)
        status = fill(t, s, o, curves, e);
    free(curves);
    return status;
}

static int sweep(struct timeline *t, struct selection *s, const struct timeline_options *o,
                 struct err *e)
{
    if (timeline_begin(t, s, o, e) != 0)
        return -1;
    const struct memory_observer to = timeline_observer(t);
    int status = selection_sweep(s, &to, e);
    if (status == 0)
        timeline_finish(t);
    return status;
}

int timeline_build(struct timeline *t, struct selection *s, const struct timeline_options *o,
                   struct err *e)
{
    *t = (struct timeline){0};
    int status = s->trace->memory.only.is ? take_figures(t, s, o, e) : sweep(t, s, o, e);
    if (status == 0)
        status = kernel_curve_build(&t->kernel, s->trace, t->begin, t->end, t->count, e);
    if (status != 0)
        timeline_release(t);
    return status;
}

void timeline_release(struct timeline *t)
{
    for (size_t i = 0; i < t->series.len; i++)
        free(t->series.at[i].buckets);
    vec_release(&t->series);
    kernel_curve_release(&t->kernel);
    *t = (struct timeline){0};
}

/* ---- peaks */

/*
 * The lowest use between bucket `i` and the next higher one in a direction; 0 if there is none. Of
 * two equal ones, the first counts as the higher.
 */
static uint64_t valley_beside(const struct timeline *t, const struct timeline_series *s, size_t i,
                              bool forward)
{
    const struct timeline_bucket *b = s->buckets;
    uint64_t low = b[i].high;
    for (size_t k = i; forward ? ++k < t->count : k-- > 0;) {
        if (b[k].high > b[i].high || (!forward && b[k].high == b[i].high))
            return low;
        low = b[k].low < low ? b[k].low : low;
    }
    return 0;
}

bool timeline_peaks(const struct timeline *t, const struct timeline_series *s, uint64_t least,
                    struct timeline_peak **list, size_t *n)
{
    VEC(struct timeline_peak) found = {0};
    bool ok = true;
    for (size_t i = 0; i < t->count && ok; i++) {
        const struct timeline_bucket *b = &s->buckets[i];
        if (b->high == 0 || (i && b[-1].high >= b->high) ||
            (i + 1 < t->count && b[1].high > b->high))
            continue;
        uint64_t before = valley_beside(t, s, i, false);
        uint64_t after = valley_beside(t, s, i, true);
        struct timeline_peak peak = {.time = b->high_time,
                                     .bytes = b->high,
                                     .rise = b->high - (before > after ? before : after)};
        if (peak.rise >= least)
            ok = vec_push(&found, peak);
    }
    if (!ok)
        vec_release(&found);
    *list = found.at;
    *n = found.len;
    return ok;
}
