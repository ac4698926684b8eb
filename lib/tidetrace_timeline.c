/* Memory use over time. */

#include "analysis/questions/timeline.h"

#include "lib/tidetrace_internal.h"
#include "report/timeline_report.h"

#define BUCKETS 200
#define BUCKETS_MAX 1000000

LIB_RESULT(timeline, timeline, line)

static int write_json(struct tidetrace_result *r, uint64_t first, uint64_t count, FILE *out,
                      struct err *e)
{
    static const struct timeline_report_options options = {.format = REPORT_JSON};
    const struct timeline_result *t = (const struct timeline_result *)r;
    (void)first;
    (void)count;
    return timeline_write(&t->line, t->base.selection.trace, &options, out, e);
}

static int check_options(const struct tidetrace_timeline_options *o, struct err *e)
{
    const uint32_t all = TIDETRACE_TIMELINE_WINDOW | TIDETRACE_TIMELINE_TOGETHER;
    bool window = o->flags & TIDETRACE_TIMELINE_WINDOW;
    if (o->flags & ~all || o->buckets > BUCKETS_MAX || (window && o->begin >= o->end))
        return err_set(e, ERR_USAGE,
                       "unknown flags, too many buckets, or a window that ends before it begins, "
                       "for a timeline");
    return 0;
}

static int build_selected(struct timeline_result *r, const struct tidetrace_timeline_options *o,
                          struct err *e)
{
    bool window = o->flags & TIDETRACE_TIMELINE_WINDOW;
    int64_t last = selection_end(&r->base.selection);
    struct timeline_options options = {.begin = window && o->begin > 0 ? o->begin : 0,
                                       .end = window ? o->end : INT64_MAX,
                                       .buckets = o->buckets ? o->buckets : BUCKETS,
                                       .together = o->flags & TIDETRACE_TIMELINE_TOGETHER};
    if (r->base.question.only.has_range)
        return err_set(e, ERR_USAGE, "a timeline has a window instead of a selected range");
    options.end = options.end <= last ? options.end : last + 1;
    return timeline_build(&r->line, &r->base.selection, &options, e);
}

static int build(struct tidetrace_result *base, const void *theirs, struct err *e)
{
    struct timeline_result *r = (struct timeline_result *)base;
    struct tidetrace_timeline_options o;
    struct question *q = &base->question;
    if (lib_take(&o, sizeof o, theirs, e) != 0 || check_options(&o, e) != 0 ||
        question_init(q, base->traces[0], o.selection, NULL, e) != 0)
        return -1;
    q->only.all_pools = !(o.flags & TIDETRACE_TIMELINE_TOGETHER);
    if (selection_init(&base->selection, &base->traces[0]->trace, &q->only, e) != 0 ||
        build_selected(r, &o, e) != 0)
        return -1;
    r->base.rows = (uint64_t)r->line.series.len * r->line.count;
    return 0;
}

static int give_row(struct tidetrace_result *r, uint64_t row, void *to, struct err *e)
{
    const struct timeline *line = &((const struct timeline_result *)r)->line;
    const struct timeline_series *s = &line->series.at[row / line->count];
    size_t number = (size_t)(row % line->count);
    const struct timeline_bucket *b = &s->buckets[number];
    const struct tidetrace_bucket_row out = {.pool = lib_text(s->name),
                                             .begin = timeline_time(line, number),
                                             .end = timeline_time(line, number + 1),
                                             .low_bytes = b->low,
                                             .high_bytes = b->high,
                                             .last_bytes = b->last,
                                             .high_time = b->high_time,
                                             .high_live = b->high_live,
                                             .last_live = b->last_live,
                                             .allocations = b->allocations,
                                             .frees = b->frees,
                                             .allocated_bytes = b->allocated,
                                             .freed_bytes = b->freed};
    return lib_give(to, &out, sizeof out, e);
}

LIB_QUESTION(timeline, tidetrace_timeline_options, bucket_row)
