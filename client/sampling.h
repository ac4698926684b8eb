#pragma once

/*
 * Records only some blocks: those of at least --min-size, or a sample (--sample BYTES).
 *
 * A sample is a Poisson process over the allocated bytes: the distance from one sampled byte to the
 * next is drawn from an exponential distribution, and a block is recorded when it contains such a
 * byte. A block of s bytes is thus recorded with probability p = 1 - exp(-s / BYTES), and counting
 * it 1 / p times gives unbiased estimates. Records have true sizes.
 *
 * Frees of blocks that are not recorded should cost next to nothing. So the addresses of live
 * recorded blocks are kept in a set; a table of small counters in front of it, which fits the L1
 * cache, decides nearly all look-ups.
 */

#include "client/state.h"

/*
 * Fast checks that are true for nearly every call of malloc and free when sampling. They cost a few
 * instructions and run before anything else, even before a frame is set up. Skipping a block whose
 * allocation then fails does not matter: the distance to the next sampled byte is memoryless.
 */

#define SAMPLING_COUNTERS (1u << 15)
#define SAMPLING_GRANULE                                                                           \
    9u /* a counter covers the blocks that begin within so many address bits \ */

/* Counts of live recorded blocks, which saturate at 255. NULL: all blocks are recorded. */
extern _Atomic uint8_t *sampling_counters;

/* Adjacent blocks have adjacent counters, so the working set of the table is small. */
static inline _Atomic uint8_t *sampling_counter(const void *address)
{
    uint64_t granule = (uint64_t)(uintptr_t)address >> SAMPLING_GRANULE;
    return &sampling_counters[(granule ^ granule >> 15) % SAMPLING_COUNTERS];
}

/* True: a block of this size need not be recorded; its bytes count as skipped. */
static inline bool sampling_skips(uint64_t size)
{
    uint64_t skip = tls.skip;
    if (skip <= size || tls.label.frame)
        return false;
    tls.skip = skip - size;
    return true;
}

/* The same without counting the bytes. */
static inline bool sampling_would_skip(uint64_t size)
{
    return tls.skip > size;
}

/* True: the block was not recorded. NULL is not a block. */
static inline bool sampling_never_had(const void *address)
{
    return sampling_counters &&
           atomic_load_explicit(sampling_counter(address), memory_order_relaxed) == 0;
}

/* Makes the set if the options ask for it. Without memory for it all frees are recorded. */
void sampling_begin(uint64_t seed);

/* In a child of fork, and before a process is attached to again: empties the set. */
void sampling_forget(void);

/* Whether a block being allocated is to be recorded; if so, adds it to the set. */
bool sampling_takes(const void *address, size_t size);

/* Adds what this thread has counted to header.too_small. */
void sampling_count_small(void);

/* The block lives on: adds it to the set again. */
void sampling_keeps(const void *address);

/* Whether a block being freed may have been recorded; removes it from the set. */
bool sampling_drops(const void *address);
