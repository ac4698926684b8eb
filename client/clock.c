#include "client/clock.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static uint64_t read_clock(clockid_t id)
{
    struct timespec t;
    if (clock_gettime(id, &t))
        return 0;
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t clock_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t clock_realtime_ns(void)
{
    return read_clock(CLOCK_REALTIME);
}

int64_t clock_coarse_ns(void)
{
    return (int64_t)read_clock(CLOCK_MONOTONIC_COARSE);
}

#if defined(__x86_64__)

/* "Invariant TSC": constant_tsc and nonstop_tsc in /proc/cpuinfo. */
static bool is_steady(void)
{
    unsigned a, b, c, d = 0;
    return __get_cpuid(0x80000007u, &a, &b, &c, &d) && (d & 1u << 8);
}

/*
 * Whether the kernel lets programs read the time without a system call: by far the faster way, if
 * so. On x86 each of its clocks that can be read so (tsc, kvm-clock, hyperv_clocksource_tsc_page)
 * is computed from the time stamp counter of whatever processor the program runs on, and the
 * kernel, or the host, vouches that those are the same. The shortest of some readings counts:
 * others may be interrupted.
 */
static bool is_trusted(void)
{
    uint64_t plain = UINT64_MAX, called = UINT64_MAX;
    struct timespec t;
    for (int i = 0; i < 16; i++) {
        uint64_t begin = clock_tsc();
        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        uint64_t middle = clock_tsc();
        (void)syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
        uint64_t end = clock_tsc();
        plain = middle - begin < plain ? middle - begin : plain;
        called = end - middle < called ? end - middle : called;
    }
    return plain < called / 2;
}

uint32_t clock_choose(void)
{
    return is_steady() && is_trusted() ? REC_CLOCK_TSC : REC_CLOCK_COUNTER;
}

#else

uint32_t clock_choose(void)
{
    return REC_CLOCK_COUNTER;
}

#endif
