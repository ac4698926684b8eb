#include "cli/options/nearest.h"

#include <string.h>

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* The optimal string alignment distance. */
unsigned nearest_distance(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    unsigned before[NEAREST_MAX], last[NEAREST_MAX], now[NEAREST_MAX] = {0};
    if (n >= NEAREST_MAX || m >= NEAREST_MAX)
        return NEAREST_MAX;
    for (unsigned j = 0; j <= m; j++)
        now[j] = j;
    memset(last, 0, sizeof last);
    for (unsigned i = 1; i <= n; i++) {
        memcpy(before, last, sizeof last);
        memcpy(last, now, sizeof now);
        now[0] = i;
        for (unsigned j = 1; j <= m; j++) {
            now[j] = least(least(last[j], now[j - 1]) + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = least(now[j], before[j - 2] + 1);
        }
    }
    return now[m];
}

int nearest_is_close(unsigned distance, size_t len)
{
    return distance <= (len < 5 ? 1 : len < 9 ? 2 : 3);
}
