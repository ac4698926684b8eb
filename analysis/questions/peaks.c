#include "analysis/questions/peaks.h"

#include <stdlib.h>

#define SHARE 20 /* local peaks rise by a twentieth of the highest */

int peaks_compare(const void *a, const void *b)
{
    const struct timeline_peak *x = a;
    const struct timeline_peak *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return (x->time > y->time) - (x->time < y->time);
}

static int collect(struct peaks *p, const struct timeline *line, struct err *e)
{
    const struct timeline_series *s = &line->series.at[0];
    uint64_t highest = 0;
    for (size_t i = 0; i < line->count; i++)
        highest = s->buckets[i].high > highest ? s->buckets[i].high : highest;
    if (!timeline_peaks(line, s, highest / SHARE, &p->list.at, &p->list.len))
        return err_no_memory(e, "peaks");
    p->list.cap = p->list.len;
    if (p->list.len)
        qsort(p->list.at, p->list.len, sizeof *p->list.at, peaks_compare);
    return 0;
}

static int build_line(struct timeline *line, struct selection *s, struct err *e)
{
    const struct timeline_options window = {
        .begin = 0, .end = selection_end(s) + 1, .buckets = PEAKS_MAX, .together = true};
    return timeline_build(line, s, &window, e);
}

int peaks_find(struct peaks *p, struct selection *s, struct err *e)
{
    struct timeline line;
    *p = (struct peaks){0};
    if (build_line(&line, s, e) != 0)
        return -1;
    int status = line.series.len ? collect(p, &line, e) : 0;
    timeline_release(&line);
    return status;
}

int peaks_growth_span(struct selection *s, int64_t *from, int64_t *to, struct err *e)
{
    struct timeline line;
    if (build_line(&line, s, e) != 0)
        return -1;
    const struct timeline_bucket *at = line.series.len ? line.series.at[0].buckets : NULL;
    size_t n = at ? line.count : 0;
    size_t first = 0;
    while (first < n && !at[first].allocations && !at[first].frees)
        first++;
    size_t highest = first;
    for (size_t i = first; i < n; i++)
        highest = at[i].high > at[highest].high ? i : highest;
    *from = timeline_time(&line, first + (highest - first) / 2) - 1;
    *to = highest < n && at[highest].high ? at[highest].high_time : *from;
    timeline_release(&line);
    return *to > *from ? 0 : err_set(e, ERR_CHECK, "nothing was ever in use");
}

void peaks_release(struct peaks *p)
{
    vec_release(&p->list);
}
