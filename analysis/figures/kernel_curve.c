#include "analysis/figures/kernel_curve.h"

#include <stdlib.h>

#include "base/vec.h"
#include "trace/store/kernel_plot.h"

struct readings {
    VEC(struct kernel_reading) list; /* in order of time */
    /* the plot that is being read */
    enum memory_value which;
    uint64_t plot;
};

/* ---- readings */

static int compare_readings(const void *a, const void *b)
{
    const struct kernel_reading *x = a, *y = b;
    return (x->time > y->time) - (x->time < y->time);
}

/* All values of a reading have its time. The anonymous pages, which come first, make the list. */
static int take_point(void *ctx, const struct plot_point *p, struct err *e)
{
    struct readings *to = ctx;
    const struct kernel_reading new = {.time = p->time};
    uint64_t n = p->value > 0 && p->value < 0x1p60 ? (uint64_t)p->value : 0;
    struct kernel_reading *r = NULL;
    if (p->plot != to->plot)
        return 0;
    if (to->which == MEMORY_RSS_ANON && !vec_push(&to->list, new))
        return err_no_memory(e, "the kernel's plots");
    if (to->which == MEMORY_RSS_ANON)
        r = &to->list.at[to->list.len - 1];
    else if (to->list.len)
        r = bsearch(&new, to->list.at, to->list.len, sizeof new, compare_readings);
    if (!r)
        return 0;
    uint64_t *const values[] = {[MEMORY_RSS_ANON] = &r->anonymous,
                                [MEMORY_RSS_FILE] = &r->file,
                                [MEMORY_RSS_SHMEM] = &r->shared,
                                [MEMORY_SWAP] = &r->swapped};
    *values[to->which] = n;
    r->resident = r->anonymous + r->file + r->shared;
    return 0;
}

static int take_plot(struct readings *to, struct plots *p, enum memory_value which, struct err *e)
{
    const uint64_t *number = map_find(&p->numbers, MEMORY_PLOT_KEY(which));
    if (!number)
        return 0;
    to->which = which;
    to->plot = *number;
    int status = plots_each(p, take_point, to, e);
    if (which == MEMORY_RSS_ANON && to->list.len && p->list.at[*number].disorder)
        qsort(to->list.at, to->list.len, sizeof *to->list.at, compare_readings);
    return status;
}

/* ---- pieces of time */

static int64_t begin_of(int64_t begin, int64_t end, size_t count, size_t i)
{
    return begin + (int64_t)((unsigned __int128)((uint64_t)end - (uint64_t)begin) * i / count);
}

/* The reading before a piece counts at its beginning, unless it is the last one. */
static void fill(struct kernel_curve *c, const struct readings *from, int64_t begin, int64_t end)
{
    const struct kernel_reading *all = from->list.at;
    size_t next = 0;
    for (size_t i = 0; i < c->count; i++) {
        struct kernel_bucket *b = &c->buckets[i];
        int64_t start = begin_of(begin, end, c->count, i);
        int64_t stop = begin_of(begin, end, c->count, i + 1);
        while (next < from->list.len && all[next].time < start)
            next++;
        bool held = next && next < from->list.len && all[next].time > start;
        size_t first = next - held;
        for (size_t k = first; k < from->list.len && all[k].time < stop; k++) {
            if (!b->known || all[k].resident > b->high.resident)
                b->high = all[k];
            b->known = true;
            c->last = all[k];
        }
    }
}

int kernel_curve_build(struct kernel_curve *c, struct trace *t, int64_t begin, int64_t end,
                       size_t count, struct err *e)
{
    struct readings all = {0};
    int status = 0;
    *c = (struct kernel_curve){.count = count};
    for (unsigned i = MEMORY_RSS_ANON; i <= MEMORY_SWAP && status == 0; i++)
        status = take_plot(&all, &t->plots, (enum memory_value)i, e);
    if (status == 0 && all.list.len && count) {
        c->buckets = calloc(count, sizeof *c->buckets);
        if (c->buckets)
            fill(c, &all, begin, end);
        else
            status = err_no_memory(e, "the kernel's plots");
    }
    vec_release(&all.list);
    return status;
}

int64_t kernel_curve_end(const struct trace *t, int64_t otherwise)
{
    const uint64_t *number = map_find(&t->plots.numbers, MEMORY_PLOT_KEY(MEMORY_RSS_ANON));
    const struct plot *plot = number ? &t->plots.list.at[*number] : NULL;
    return plot && plot->count && plot->newest > otherwise ? plot->newest : otherwise;
}

void kernel_curve_release(struct kernel_curve *c)
{
    free(c->buckets);
    *c = (struct kernel_curve){0};
}
