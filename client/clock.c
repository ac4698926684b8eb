#include "client/clock.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <string.h>
#include <time.h>

#include "client/files.h"

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

uint32_t clock_choose(void)
{
#if defined(__x86_64__)
    /* "Invariant TSC": constant_tsc and nonstop_tsc in /proc/cpuinfo. */
    unsigned a, b, c, d = 0;
    char source[16] = "";
    if (__get_cpuid(0x80000007u, &a, &b, &c, &d) && (d & 1u << 8) &&
        files_read("/sys/devices/system/clocksource/clocksource0/current_clocksource", source,
                   sizeof source) > 0 &&
        strcmp(source, "tsc\n") == 0)
        return REC_CLOCK_TSC;
#endif
    return REC_CLOCK_COUNTER;
}
