#include "analysis/figures/outliers.h"

#include <math.h>
#include <stdlib.h>

static int compare_counts(const void *a, const void *b)
{
    const uint64_t *x = a;
    const uint64_t *y = b;
    return (*x > *y) - (*x < *y);
}

static int compare_distances(const void *a, const void *b)
{
    const double *x = a;
    const double *y = b;
    return (*x > *y) - (*x < *y);
}

/* A sorted list, merged with a number of equal values. */
struct merged {
    const double *list;
    size_t count;
    double value;
    uint64_t times;
};

static double at(const struct merged *m, uint64_t i)
{
    size_t below = 0;
    size_t high = m->count;
    while (below < high) {
        size_t mid = below + (high - below) / 2;
        if (m->list[mid] < m->value)
            below = mid + 1;
        else
            high = mid;
    }
    if (i < below)
        return m->list[i];
    return i < below + m->times ? m->value : m->list[i - m->times];
}

static double median_of(const struct merged *m)
{
    uint64_t n = m->count + m->times;
    if (n == 0)
        return 0;
    return n % 2 ? at(m, n / 2) : (at(m, n / 2 - 1) + at(m, n / 2)) / 2;
}

int outlier_scale_find(struct outlier_scale *s, uint64_t *values, size_t count, uint64_t n,
                       struct err *e)
{
    double *list = malloc((count + 1) * sizeof *list);
    struct merged m = {.list = list, .count = count, .value = 0, .times = n - count};
    *s = (struct outlier_scale){.n = n};
    if (!list)
        return err_no_memory(e, "outliers");
    if (count)
        qsort(values, count, sizeof *values, compare_counts);
    for (size_t i = 0; i < count; i++)
        list[i] = (double)values[i];
    s->median = median_of(&m);
    double sum = s->median * (double)m.times;
    for (size_t i = 0; i < count; i++) {
        list[i] = fabs((double)values[i] - s->median);
        sum += list[i];
    }
    if (count)
        qsort(list, count, sizeof *list, compare_distances);
    m.value = s->median;
    s->mad = median_of(&m);
    s->mean_distance = n ? sum / (double)n : 0;
    free(list);
    return 0;
}

double outlier_score(const struct outlier_scale *s, uint64_t value)
{
    double distance = (double)value - s->median;
    if (s->n < OUTLIERS_LEAST)
        return 0;
    if (s->mad > 0)
        return 0.6745 * distance / s->mad;
    return s->mean_distance > 0 ? distance / (1.2533 * s->mean_distance) : 0;
}
