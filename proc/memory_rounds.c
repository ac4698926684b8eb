#include "proc/memory_rounds.h"

#include <time.h>

#include "base/monotonic.h"

#define SECOND INT64_C(1000000000)

/* Pauses are so many times the processor time of the round before: 0.4 % and 0.1 %. */
#define PAUSE 250
#define PSS_PAUSE 1000
#define PSS_PERIOD SECOND

/* After a round without a process that could be read. */
#define PAUSE_EMPTY (5 * SECOND / 1000)

int64_t memory_rounds_used(void)
{
    struct timespec t = {0};
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * SECOND + t.tv_nsec;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

struct memory_rounds memory_rounds(uint64_t hz)
{
    return (struct memory_rounds){.period = hz ? SECOND / (int64_t)hz : 0};
}

/* A round is of the PSS or of all else. */
bool memory_rounds_begin(struct memory_rounds *r)
{
    int64_t now = monotonic_ns();
    r->pss = r->next > now;
    if (!r->period || (r->pss && r->next_pss > now))
        return false;
    r->began = now;
    r->used = memory_rounds_used();
    return true;
}

void memory_rounds_end(struct memory_rounds *r, bool empty)
{
    int64_t took = memory_rounds_used() - r->used, now = monotonic_ns();
    int64_t period = empty ? PAUSE_EMPTY : r->pss ? later(r->period, PSS_PERIOD) : r->period;
    *(r->pss ? &r->next_pss : &r->next) =
        later(r->began + period, now + (r->pss ? PSS_PAUSE : PAUSE) * took);
}

int memory_rounds_pause(const struct memory_rounds *r, int most)
{
    int64_t next = r->next < r->next_pss ? r->next : r->next_pss;
    int64_t left = (next - monotonic_ns() + 999999) / 1000000;
    if (!r->period || left >= most)
        return most;
    return left < 0 ? 0 : (int)left;
}
