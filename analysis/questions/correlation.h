#ifndef TIDEMARK_ANALYSIS_QUESTIONS_CORRELATION_H
#define TIDEMARK_ANALYSIS_QUESTIONS_CORRELATION_H

/*
 * How two series of values move together, and how sure that is.
 *
 * Pearson's r is that of the values, Spearman's rho the same of their ranks, equal values sharing
 * the mean of theirs. The probability is that of a rho so far from 0 in independent series: by
 * Fisher's transformation with the variance 1.06 / (n - 3) (Fieller, Hartley and Pearson 1957), n
 * being reduced to n (1 - a b) / (1 + a b) when both series follow themselves with the lag-1
 * correlations a and b of their ranks, a b > 0 (Bartlett 1935). It is that of either sign.
 */

#include <stddef.h>

#include "base/err.h"

struct correlation {
    double pearson, spearman; /* 0 when one of the series does not change */
    double effective;         /* n after the reduction */
    double p;
};

/* `n` values each, all finite. */
int correlation_find(struct correlation *c, const double *x, const double *y, size_t n,
                     struct err *e);

/*
 * Fisher's method: the probability that n independent probabilities give so low a product. `sum`
 * is that of their natural logarithms.
 */
double combined_probability(double sum, size_t n);

/*
 * Holm's correction of n probabilities for their number: *adjusted[i] is the probability that any
 * of the hypotheses up to that one is wrongly rejected, at most 1. Sorts `order`, which receives
 * the positions by rising probability.
 */
void holm_adjust(const double *p, double *adjusted, size_t *order, size_t n);

#endif
