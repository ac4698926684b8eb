#include "trace/store/limit_watch.h"

#define SECOND 1e9

/* Shares of the limit. */
#define USE_NEAR 0.9
#define USE_FAR 0.8

/* Percent of the time. */
#define WAITED_NEAR 10
#define WAITED_FAR 5

/* What readings that may be of any trace have: no limit of version 1 is that high. */
#define BYTES_MOST 0x1p60

static double value(uint32_t known, const double *values, enum memory_value which, double most)
{
    bool good = known & UINT32_C(1) << which && values[which] >= 0 && values[which] < most;
    return good ? values[which] : 0;
}

bool limit_watch_is_full(const struct limit_watch *w)
{
    return w->limit >= 1 && w->use >= USE_NEAR * w->limit;
}

enum limit_state limit_watch_take(struct limit_watch *w, uint32_t known, const double *values,
                                  int64_t time)
{
    double group = value(known, values, MEMORY_CGROUP_FULL, 101);
    double system = value(known, values, MEMORY_SYSTEM_FULL, 101);
    double seconds = w->time && time > w->time ? (double)(time - w->time) / SECOND : 0;
    w->waited += ((group > system ? group : system) - w->waited) * (seconds < 1 ? seconds : 1);
    w->time = time;
    double use = value(known, values, MEMORY_CGROUP_USE, BYTES_MOST);
    double file = value(known, values, MEMORY_CGROUP_FILE, BYTES_MOST);
    w->use = use > file ? use - file : 0;
    w->limit = value(known, values, MEMORY_CGROUP_LIMIT, BYTES_MOST);
    if (limit_watch_is_full(w) || w->waited >= WAITED_NEAR)
        return LIMIT_NEAR;
    bool far = w->limit < 1 || w->use < USE_FAR * w->limit;
    return far && w->waited < WAITED_FAR ? LIMIT_FAR : LIMIT_BETWEEN;
}
