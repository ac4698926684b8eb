#ifndef TIDEMARK_CLIENT_SAMPLING_H
#define TIDEMARK_CLIENT_SAMPLING_H

/*
 * Recording only some blocks: those of at least --min-size, or a sample (--sample BYTES).
 *
 * A sample is a Poisson process over the bytes that are allocated: the distance in bytes from one
 * sampled byte to the next is drawn from an exponential distribution, and a block is recorded when
 * it has such a byte. A block of s bytes is thus recorded with probability p = 1 - exp(-s / BYTES),
 * and counting it 1 / p times gives estimates without bias. Records have true sizes.
 *
 * Frees of blocks that are not recorded should cost next to nothing. So the addresses of those that
 * are live are kept in a set; a table of small counters before it, which fits the first cache,
 * answers nearly all questions.
 */

#include "client/state.h"

/* Makes the set if the options ask for it. Without memory for it all frees are recorded. */
void sampling_begin(uint64_t seed);

/* In a child of fork: what the parent recorded is not known here. */
void sampling_forget(void);

/* Whether a block that is being allocated is to be recorded; it is then in the set. */
bool sampling_takes(const void *address, size_t size);

/* Adds to header.too_small what this thread has counted so far. */
void sampling_count_small(void);

/* It lives on, and is in the set again. */
void sampling_keeps(const void *address);

/* Whether a block that is being freed may have been recorded; it is then no more in the set. */
bool sampling_drops(const void *address);

#endif
