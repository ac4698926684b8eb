#pragma once

/*
 * The correlation of two series of values, and its significance.
 *
 * Pearson's r is that of the values; Spearman's rho is that of their ranks, with equal values
 * sharing the mean rank. The probability is that of a rho this far from 0 in independent series. It
 * uses Fisher's transformation with the variance 1.06 / (n - 3) (Fieller, Hartley and Pearson
 * 1957). For autocorrelated series, n is reduced to n (1 - a b) / (1 + a b), with the lag-1
 * correlations a and b of their ranks, if a b > 0 (Bartlett 1935). The test is two-sided.
 */

#include <stddef.h>

#include "base/err.h"

struct correlation {
    double pearson, spearman; /* 0 if one of the series is constant */
    double effective;         /* n after the reduction */
    double p;
};

/* `n` values each, all finite. */
int correlation_find(struct correlation *c, const double *x, const double *y, size_t n,
                     struct err *e);

/*
 * Fisher's method: the probability that n independent probabilities have such a low product. `sum`
 * is the sum of their natural logarithms.
 */
double combined_probability(double sum, size_t n);

/*
 * Holm's correction of n probabilities for their number: *adjusted[i] is the probability that any
 * of the hypotheses up to that one is wrongly rejected, at most 1. `order` receives the positions
 * by rising probability.
 */
void holm_adjust(const double *p, double *adjusted, size_t *order, size_t n);
