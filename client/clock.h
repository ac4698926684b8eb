#pragma once

/*
 * Stamps, which order the events of all threads.
 *
 * The time stamp counter is used if it runs at one rate on all processors and the kernel trusts it
 * to be the same on all of them: programs can then compute the time from it without a system call.
 * Why it gives the order:
 *
 * - The stamp of a free must be before anything that another thread can learn of it, and after the
 *   stamp of the block's allocation. The first holds without a fence after the read: x86 makes
 *   stores visible in order, after they retire, which is after the read has retired. The second
 *   needs a fence before the read: the counter could otherwise be read before the load by which
 *   this thread learned of the block. Nothing after LFENCE begins until all loads before it are
 *   done.
 * - The stamp of an allocation must be after that of the free by the address's previous owner. The
 *   real malloc learned of that free by a load, and again LFENCE is in between.
 * - Data passes from one processor to another in tens of nanoseconds; counters that the kernel has
 *   synchronised differ by less.
 *
 * Otherwise an atomic counter in the header is used, which is always correct but costs a shared
 * cache line. Other architectures use it as well: their timers tick too slowly to order such
 * events.
 */

#include <stdint.h>

#include "client/state.h"

/* Chooses the clock (enum rec_clock). Takes some microseconds; call it at the start only. */
uint32_t clock_choose(void);

/* Nanoseconds of CLOCK_MONOTONIC, and of CLOCK_REALTIME. */
uint64_t clock_ns(void);
uint64_t clock_realtime_ns(void);

/* Nanoseconds of the coarse monotonic clock: some milliseconds behind, but cheap. */
int64_t clock_coarse_ns(void);

static inline uint64_t clock_tsc(void)
{
#if defined(__x86_64__)
    uint32_t low, high;
    __asm__ volatile("lfence\n\trdtsc" : "=a"(low), "=d"(high)::"memory");
    return (uint64_t)high << 32 | low;
#else
    return 0;
#endif
}

/* The stamp of an event that happens now. */
static inline uint64_t clock_stamp(void)
{
    if (client_likely(state.clock == REC_CLOCK_TSC))
        return clock_tsc();
    return atomic_fetch_add_explicit(&state.header->counter, 1, memory_order_acq_rel) + 1;
}
