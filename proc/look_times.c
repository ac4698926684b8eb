#include "proc/look_times.h"

bool look_times_due(const struct look_times *t, double seconds, size_t *passed)
{
    size_t before = *passed;
    while (*passed < t->len && t->at[*passed] <= seconds)
        ++*passed;
    return *passed > before;
}

int look_times_pause(const struct look_times *t, double seconds, size_t passed, int most)
{
    if (passed >= t->len || t->at[passed] - seconds > most / 1e3)
        return most;
    return t->at[passed] <= seconds ? 0 : (int)((t->at[passed] - seconds) * 1e3) + 1;
}
