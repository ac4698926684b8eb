#pragma once

/*
 * Outliers by robust measures, which outliers themselves do not shift: the median, and the median
 * of the distances from it (MAD).
 *
 * The score of a value x is the modified z-score: 0.6745 (x - median) / MAD. If more than half of
 * all values are equal, MAD is 0, and the score is (x - median) / (1.2533 mean distance). Beyond
 * 3.5 in either direction the value is an outlier (Iglewicz and Hoaglin, How to Detect and Handle
 * Outliers, 1993). Fewer than OUTLIERS_LEAST values have no outliers.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define OUTLIERS_LEAST 8u
#define OUTLIER_SCORE 3.5

struct outlier_scale {
    uint64_t n; /* values */
    double median;
    double mad;
    double mean_distance; /* from the median */
};

/*
 * The scale of `n` values, of which `count` are listed and the rest is 0. Sorts the list.
 * ERR_MEMORY if memory is short.
 */
int outlier_scale_find(struct outlier_scale *s, uint64_t *values, size_t count, uint64_t n,
                       struct err *e);

/* 0 if all values are equal, or there are too few. */
double outlier_score(const struct outlier_scale *s, uint64_t value);

static inline bool outlier_is_one(double score)
{
    return score > OUTLIER_SCORE || score < -OUTLIER_SCORE;
}
