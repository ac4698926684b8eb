#include "analysis/runs/noise.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Statistics that are equal but for rounding count as equal. */
#define ROUNDING 1e-9

struct test {
    struct noise *n;
    const struct noise_options *options;
    size_t total;    /* runs */
    uint8_t *splits; /* the first group's runs in each division, n->runs[0] each */
    double *largest; /* of each division */
    double *own;     /* each row's statistic in the real division, the first */
};

/* ---- divisions */

/* The number of ways to choose k of n; NOISE_SPLITS + 1 if there are more than NOISE_SPLITS. */
static uint64_t choose(size_t n, size_t k)
{
    uint64_t ways = 1;
    k = k > n - k ? n - k : k;
    for (size_t i = 1; i <= k; i++) {
        ways = ways * (n - k + i) / i;
        if (ways > NOISE_SPLITS)
            return NOISE_SPLITS + 1;
    }
    return ways;
}

size_t noise_runs_needed(double level)
{
    for (size_t runs = 2; 2 * runs <= NOISE_RUNS; runs++) {
        uint64_t splits = choose(2 * runs, runs);
        double least = splits <= NOISE_SPLITS ? 2.0 / (double)splits : 1.0 / NOISE_SPLITS;
        if (least <= level)
            return runs;
        if (splits > NOISE_SPLITS)
            break;
    }
    return 0;
}

/* All divisions in lexical order: the real one is the first. */
static void list_all(struct test *t)
{
    size_t k = t->n->runs[0];
    uint8_t *at = t->splits;
    for (size_t i = 0; i < k; i++)
        at[i] = (uint8_t)i;
    for (uint64_t s = 1; k && s < t->n->splits; s++) {
        uint8_t *next = at + k;
        memcpy(next, at, k);
        size_t i = k; /* one beyond the last that can grow */
        while (i > 1 && next[i - 1] == t->total - k + i - 1)
            i--;
        next[i - 1]++;
        for (size_t j = i; j < k; j++)
            next[j] = (uint8_t)(next[j - 1] + 1);
        at = next;
    }
}

/* The real division, and others by chance: of a fixed seed, so that a result can be repeated. */
static void list_some(struct test *t)
{
    size_t k = t->n->runs[0];
    uint64_t random = UINT64_C(0x9e3779b97f4a7c15);
    uint8_t order[NOISE_RUNS];
    for (size_t i = 0; i < t->total; i++)
        order[i] = (uint8_t)i;
    memcpy(t->splits, order, k);
    for (uint64_t s = 1; s < t->n->splits; s++) {
        for (size_t i = 0; i < k && i < t->total; i++) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            size_t with = i + (size_t)((random >> 11) % (t->total - i));
            uint8_t swapped = order[i];
            order[i] = order[with];
            order[with] = swapped;
        }
        memcpy(t->splits + s * k, order, k);
    }
}

/* ---- the statistic */

/* What all divisions of a row share. */
struct sums {
    double origin; /* the others are of values less this */
    double sum, squares;
    double mean; /* of the values */
};

static struct sums sums_of(const double *values, size_t n)
{
    struct sums s = {.origin = values[0]};
    for (size_t i = 0; i < n; i++)
        s.sum += values[i] - s.origin;
    double mean = s.sum / (double)n;
    for (size_t i = 0; i < n; i++) {
        double d = values[i] - s.origin - mean;
        s.squares += d * d;
    }
    s.mean = s.origin + mean;
    return s;
}

struct division {
    double change;    /* of the means */
    double deviation; /* of a run within its group */
    double error;     /* standard error of the change, and the floor */
};

static struct division divide(const struct test *t, const struct sums *s, const double *values,
                              const uint8_t *first, double floor)
{
    double n0 = (double)t->n->runs[0], n1 = (double)t->n->runs[1], n = n0 + n1;
    double sum = 0;
    for (size_t i = 0; i < t->n->runs[0]; i++)
        sum += values[first[i]] - s->origin;
    struct division d = {.change = (s->sum - sum) / n1 - sum / n0};
    double within = s->squares - n0 * n1 / n * d.change * d.change;
    d.deviation = n > 2 && within > 0 ? sqrt(within / (n - 2)) : 0;
    d.error = d.deviation * sqrt(1 / n0 + 1 / n1) + floor;
    return d;
}

static bool is_unstable(const struct test *t, const struct sums *s, const struct division *d)
{
    return d->deviation > t->options->unstable * fabs(s->mean);
}

static double statistic(const struct test *t, const struct sums *s, const struct division *d)
{
    if (d->change == 0 || (t->options->mute_unstable && is_unstable(t, s, d)))
        return 0;
    return d->error > 0 ? fabs(d->change) / d->error : INFINITY;
}

/* ---- rows */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void describe(struct noise_row *r, int side, const double *values, size_t n)
{
    double sorted[NOISE_RUNS];
    double squares = 0;
    memcpy(sorted, values, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, compare);
    r->median[side] = (sorted[n / 2] + sorted[(n - 1) / 2]) / 2;
    r->mean[side] = 0;
    for (size_t i = 0; i < n; i++)
        r->mean[side] += values[i] / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += (values[i] - r->mean[side]) * (values[i] - r->mean[side]);
    r->spread[side] = n > 1 ? sqrt(squares / (double)(n - 1)) : NAN;
}

static void try_row(struct test *t, const double *values, const struct noise_row *r, double *own)
{
    struct sums s = sums_of(values, t->total);
    *own = 0;
    if (r->muted || s.squares == 0)
        return;
    for (uint64_t i = 0; i < t->n->splits; i++) {
        struct division d = divide(t, &s, values, t->splits + i * t->n->runs[0], r->floor);
        double one = statistic(t, &s, &d);
        if (i == 0)
            *own = one;
        if (one > t->largest[i])
            t->largest[i] = one;
    }
}

/* The share of divisions whose largest statistic, sorted here, is not below `own`. */
static double share_above(const struct test *t, double own)
{
    uint64_t low = 0, high = t->n->splits;
    double least = own * (1 - ROUNDING);
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (t->largest[middle] < least)
            low = middle + 1;
        else
            high = middle;
    }
    return (double)(t->n->splits - low) / (double)t->n->splits;
}

static void judge_row(const struct test *t, const double *values, struct noise_row *r, double own)
{
    struct sums s = sums_of(values, t->total);
    struct division d = divide(t, &s, values, t->splits, r->floor);
    describe(r, 0, values, t->n->runs[0]);
    describe(r, 1, values + t->n->runs[0], t->n->runs[1]);
    r->change = d.change;
    r->unstable = is_unstable(t, &s, &d);
    r->muted |= r->unstable && t->options->mute_unstable;
    r->p = own > 0 ? share_above(t, own) : 1;
    r->changed = t->n->can_tell && own > 0 && r->p <= t->options->level;
    bool known = t->n->can_tell && isfinite(t->n->critical) && !r->muted;
    r->low = known ? r->change - t->n->critical * d.error : NAN;
    r->high = known ? r->change + t->n->critical * d.error : NAN;
}

/* One group: there is nothing to test. */
static void describe_alone(const struct test *t, const double *values, struct noise_row *rows,
                           size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct noise_row *r = &rows[i];
        describe(r, 1, values + i * t->total, t->total);
        r->median[0] = r->mean[0] = r->spread[0] = r->change = r->low = r->high = NAN;
        r->p = 1;
        r->changed = false;
        r->unstable = r->spread[1] > t->options->unstable * fabs(r->mean[1]);
        r->muted |= r->unstable && t->options->mute_unstable;
    }
}

static int run(struct test *t, const double *values, struct noise_row *rows, size_t count,
               struct err *e)
{
    struct noise *n = t->n;
    t->splits = calloc(n->splits, n->runs[0]);
    t->largest = calloc(n->splits, sizeof *t->largest);
    t->own = calloc(count + 1, sizeof *t->own);
    if (!t->splits || !t->largest || !t->own)
        return err_no_memory(e, "the comparison");
    if (n->all_splits)
        list_all(t);
    else
        list_some(t);
    for (size_t i = 0; i < count; i++)
        try_row(t, values + i * t->total, &rows[i], &t->own[i]);
    qsort(t->largest, n->splits, sizeof *t->largest, compare);
    uint64_t above = (uint64_t)(t->options->level * (double)n->splits);
    n->critical = t->largest[above < n->splits ? n->splits - 1 - above : 0];
    for (size_t i = 0; i < count; i++)
        judge_row(t, values + i * t->total, &rows[i], t->own[i]);
    return 0;
}

/* How many divisions to try of `count` rows. */
static uint64_t splits_most(const struct noise *n, size_t count)
{
    uint64_t afforded = NOISE_WORK / n->runs[0] / (count ? count : 1);
    return afforded > NOISE_SPLITS         ? NOISE_SPLITS
           : afforded < NOISE_SPLITS_LEAST ? NOISE_SPLITS_LEAST
                                           : afforded;
}

int noise_test(struct noise *n, const size_t runs[2], const double *values, struct noise_row *rows,
               size_t count, const struct noise_options *options, struct err *e)
{
    *n = (struct noise){.runs = {runs[0], runs[1]}, .least_p = NAN};
    struct test t = {.n = n, .options = options, .total = runs[0] + runs[1]};
    if (runs[1] == 0)
        return err_set(e, ERR_USAGE, "there is no new run");
    if (runs[0] > NOISE_RUNS || runs[1] > NOISE_RUNS || t.total > NOISE_RUNS)
        return err_set(e, ERR_USAGE, "%zu runs are too many to compare: at most %u", t.total,
                       NOISE_RUNS);
    if (runs[0] == 0) {
        describe_alone(&t, values, rows, count);
        return 0;
    }
    uint64_t splits = choose(t.total, runs[0]), most = splits_most(n, count);
    n->all_splits = splits <= most;
    n->splits = n->all_splits ? splits : most;
    /* A division and its mirror image have the same statistic. */
    n->least_p = (n->all_splits && runs[0] == runs[1] ? 2.0 : 1.0) / (double)n->splits;
    n->can_tell = t.total > 2 && n->least_p <= options->level;
    int status = run(&t, values, rows, count, e);
    free(t.splits);
    free(t.largest);
    free(t.own);
    return status;
}
