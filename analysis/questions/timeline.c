#include "analysis/questions/timeline.h"

#include <stdlib.h>

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
        struct timeline_bucket *b = &s->buckets[i];
        if (s->use < b->low)
            b->low = s->use;
        if (s->use > b->high || b->high_time == INT64_MIN) {
            int64_t begin = timeline_time(t, i);
            b->high = s->use;
            b->high_time = from > begin ? from : begin;
        }
        if (s->live > b->high_live)
            b->high_live = s->live;
        b->last = s->use;
        b->last_live = s->live;
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
        for (size_t k = 0; k < t->count; k++) {
            series.buckets[k].low = UINT64_MAX;
            series.buckets[k].high_time = INT64_MIN;
        }
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

struct memory_observer timeline_observer(struct timeline *t)
{
    return (struct memory_observer){.ctx = t, .op = take, .beside = true};
}

void timeline_finish(struct timeline *t)
{
    for (size_t i = 0; i < t->series.len; i++)
        settle(t, &t->series.at[i], INT64_MAX);
}

int timeline_build(struct timeline *t, struct selection *s, const struct timeline_options *o,
                   struct err *e)
{
    if (timeline_begin(t, s, o, e) != 0)
        return -1;
    const struct memory_observer to = timeline_observer(t);
    int status = selection_sweep(s, &to, e);
    if (status == 0)
        status = kernel_curve_build(&t->kernel, s->trace, t->begin, t->end, t->count, e);
    if (status == 0)
        timeline_finish(t);
    else
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
