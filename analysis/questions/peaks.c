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

int peaks_find(struct peaks *p, struct selection *s, struct err *e)
{
    struct timeline line;
    const struct timeline_options window = {
        .begin = 0, .end = selection_end(s) + 1, .buckets = PEAKS_MAX, .together = true};
    *p = (struct peaks){0};
    if (timeline_build(&line, s, &window, e) != 0)
        return -1;
    int status = line.series.len ? collect(p, &line, e) : 0;
    timeline_release(&line);
    return status;
}

void peaks_release(struct peaks *p)
{
    vec_release(&p->list);
}
