#include "analysis/questions/correlation.h"

#include <math.h>
#include <stdlib.h>

struct ranked {
    double value;
    size_t at;
};

static int compare_values(const void *a, const void *b)
{
    const struct ranked *x = a;
    const struct ranked *y = b;
    return (x->value > y->value) - (x->value < y->value);
}

/* Equal values share the mean of their ranks. */
static void find_ranks(const double *values, double *ranks, struct ranked *room, size_t n)
{
    for (size_t i = 0; i < n; i++)
        room[i] = (struct ranked){values[i], i};
    qsort(room, n, sizeof *room, compare_values);
    for (size_t i = 0; i < n;) {
        size_t end = i + 1;
        while (end < n && room[end].value <= room[i].value)
            end++;
        double rank = (double)(i + end - 1) / 2;
        for (; i < end; i++)
            ranks[room[i].at] = rank;
    }
}

static double mean_of(const double *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i] / (double)n;
    return sum;
}

/* The correlation of x with y shifted by a number of places, over the common places. */
static double pearson(const double *x, const double *y, size_t n)
{
    double p = mean_of(x, n);
    double q = mean_of(y, n);
    double xx = 0;
    double yy = 0;
    double xy = 0;
    double scale_x = 0;
    double scale_y = 0;
    for (size_t i = 0; i < n; i++) {
        scale_x = fmax(scale_x, fabs(x[i] - p));
        scale_y = fmax(scale_y, fabs(y[i] - q));
    }
    if (!(scale_x > 0) || !(scale_y > 0) || !isfinite(scale_x) || !isfinite(scale_y))
        return 0;
    for (size_t i = 0; i < n; i++) {
        double u = (x[i] - p) / scale_x;
        double v = (y[i] - q) / scale_y;
        xx += u * u;
        yy += v * v;
        xy += u * v;
    }
    double r = xy / sqrt(xx * yy);
    return r > 1 ? 1 : r < -1 ? -1 : r;
}

static double probability(double rho, double n)
{
    if (n <= 4)
        return 1;
    double z = fabs(atanh(rho)) * sqrt((n - 3) / 1.06);
    return erfc(z / sqrt(2));
}

int correlation_find(struct correlation *c, const double *x, const double *y, size_t n,
                     struct err *e)
{
    *c = (struct correlation){.effective = (double)n, .p = 1};
    if (n < 2)
        return 0;
    double *ranks = malloc(2 * n * sizeof *ranks);
    struct ranked *room = malloc(n * sizeof *room);
    if (!ranks || !room) {
        free(ranks);
        free(room);
        return err_no_memory(e, "correlations");
    }
    find_ranks(x, ranks, room, n);
    find_ranks(y, ranks + n, room, n);
    c->pearson = pearson(x, y, n);
    c->spearman = pearson(ranks, ranks + n, n);
    double a = pearson(ranks, ranks + 1, n - 1);
    double b = pearson(ranks + n, ranks + n + 1, n - 1);
    if (a * b > 0)
        c->effective = (double)n * (1 - a * b) / (1 + a * b);
    c->p = probability(c->spearman, c->effective);
    free(ranks);
    free(room);
    return 0;
}

/*
 * The upper tail of chi square with 2 n degrees of freedom, a sum of n terms, computed with
 * logarithms.
 */
double combined_probability(double sum, size_t n)
{
    double half = -sum; /* half of the statistic, -2 sum */
    if (n == 0 || !(half > 0))
        return 1;
    double term = 0; /* log of half^i / i! */
    double most = 0;
    for (size_t i = 1; i < n; i++) {
        term += log(half / (double)i);
        most = term > most ? term : most;
    }
    double total = exp(-most);
    term = 0;
    for (size_t i = 1; i < n; i++) {
        term += log(half / (double)i);
        total += exp(term - most);
    }
    double p = exp(most + log(total) - half);
    return p < 1 ? p : 1;
}

static int compare_positions(const void *a, const void *b, void *ctx)
{
    const double *p = ctx;
    size_t x = *(const size_t *)a;
    size_t y = *(const size_t *)b;
    if (p[x] < p[y] || p[x] > p[y])
        return p[x] < p[y] ? -1 : 1;
    return (x > y) - (x < y);
}

void holm_adjust(const double *p, double *adjusted, size_t *order, size_t n)
{
    double least = 0;
    for (size_t i = 0; i < n; i++)
        order[i] = i;
    if (n)
        qsort_r(order, n, sizeof *order, compare_positions, (void *)p);
    for (size_t i = 0; i < n; i++) {
        double raised = p[order[i]] * (double)(n - i);
        least = raised > least ? raised : least;
        adjusted[order[i]] = least < 1 ? least : 1;
    }
}
