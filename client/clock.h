#ifndef TIDEMARK_CLIENT_CLOCK_H
#define TIDEMARK_CLIENT_CLOCK_H

/*
 * Stamps: what puts the events of all threads in order.
 *
 * The time stamp counter may be used when it runs at one rate on all processors and the kernel
 * trusts it to be the same on all of them (it then is its own clock source). Why it gives the
 * order:
 *
 * - The stamp of a free must lie before anything that another thread can learn of it, and behind
 * the stamp of the block's allocation. The first holds without a fence behind the read, since x86
 * makes stores visible in order, when they retire, so later than the read retired. The second needs
 * the fence before it: else the counter could be read, out of order, before the load that told this
 *   thread of the block. LFENCE lets nothing behind it begin until all loads before it are done.
 * - The stamp of an allocation must lie behind that of the free of whoever had the address before:
 *   that free was learned of by a load within the real malloc, and again LFENCE is between.
 * - Knowledge passes from one processor to another in tens of nanoseconds, the counters of
 * processors that the kernel synchronised differ by less.
 *
 * Else an atomic counter in the header, which has no doubts, but costs a shared cache line. Other
 * architectures use it as well: their timers tick too slowly to tell such events apart.
 */

#include <stdint.h>

#include "client/state.h"

/* Which of the two (enum rec_clock) this host can have. Reads files; for the start only. */
uint32_t clock_choose(void);

/* Nanoseconds of CLOCK_MONOTONIC, and of CLOCK_REALTIME. */
uint64_t clock_ns(void);
uint64_t clock_realtime_ns(void);

/* Nanoseconds of the coarse monotonic clock: a few milliseconds wrong, but cheap. */
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

#endif
