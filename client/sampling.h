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

/*
 * The two questions that nearly every call of malloc and free answers with yes, when a sample is
 * taken. They cost a few instructions, and so can be asked before anything else is done, frames
 * included. It is no harm to skip a block that is then not allocated: the distance to the next
 * sampled byte has no memory.
 */

#define SAMPLING_COUNTERS (1u << 15)
#define SAMPLING_GRANULE                                                                           \
    9u /* a counter is of the blocks that begin in so many bits of addresses                       \
        */

/* Live recorded blocks; at the most 255, then for good. NULL: all blocks are recorded. */
extern _Atomic uint8_t *sampling_counters;

/* Neighbours have neighbouring counters, so a program's working set of them is small. */
static inline _Atomic uint8_t *sampling_counter(const void *address)
{
    uint64_t granule = (uint64_t)(uintptr_t)address >> SAMPLING_GRANULE;
    return &sampling_counters[(granule ^ granule >> 15) % SAMPLING_COUNTERS];
}

/* True: a block of this size need not be recorded, and is counted as passed over. */
static inline bool sampling_skips(uint64_t size)
{
    uint64_t skip = tls.skip;
    if (skip <= size || tls.label.frame)
        return false;
    tls.skip = skip - size;
    return true;
}

/* As above, but nothing is counted: there is room for this much. */
static inline bool sampling_would_skip(uint64_t size)
{
    return tls.skip > size;
}

/* True: the block was not recorded. NULL is no block. */
static inline bool sampling_never_had(const void *address)
{
    return sampling_counters &&
           atomic_load_explicit(sampling_counter(address), memory_order_relaxed) == 0;
}

/* Makes the set if the options ask for it. Without memory for it all frees are recorded. */
void sampling_begin(uint64_t seed);

/* In a child of fork, and before a process is attached to again: nothing is in the set. */
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
