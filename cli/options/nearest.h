#pragma once

/* "Did you mean": the name that a mistyped word is most like. */

#include <stddef.h>

/* The longest name that is compared; longer ones are like nothing. */
enum { NEAREST_MAX = 48 };

/*
 * How many letters must be inserted, deleted, replaced or swapped with their neighbour to make `b`
 * of `a`. NEAREST_MAX when one of them is too long.
 */
unsigned nearest_distance(const char *a, const char *b);

/* Whether a word this far from one of this length is taken for a typing error. */
int nearest_is_close(unsigned distance, size_t len);
