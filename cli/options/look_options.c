#include "cli/options/look_options.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options/options.h"

static int compare_times(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static bool take_times(void *ctx, const char *option, const char *value, struct err *e)
{
    struct look_times *t = &((struct look_wishes *)ctx)->times;
    char one[64];
    for (const char *p = value;; p++) {
        size_t n = strcspn(p, ",");
        double seconds;
        if (n >= sizeof one)
            return refuse_value(e, option, "seconds, separated by commas", value);
        memcpy(one, p, n);
        one[n] = 0;
        if (!option_seconds(one, option, &seconds, e))
            return false;
        if (t->len == LOOK_TIMES_MOST)
            return err_set(e, ERR_USAGE, "%s: more than %u times", option, LOOK_TIMES_MOST), false;
        t->at[t->len++] = seconds;
        p += n;
        if (!*p)
            break;
    }
    qsort(t->at, t->len, sizeof *t->at, compare_times);
    return true;
}

int look_signal(const char *name)
{
    const char *end = strncmp(name, "SIG", 3) == 0 ? name + 3 : name;
    return strcmp(end, "USR1") == 0 ? SIGUSR1 : strcmp(end, "USR2") == 0 ? SIGUSR2 : 0;
}

static bool take_signal(void *ctx, const char *option, const char *value, struct err *e)
{
    (void)option;
    (void)e;
    return (((struct look_wishes *)ctx)->signal = look_signal(value)) != 0;
}

const struct option_row look_rows[] = {
    {"--resident-at", "LIST",
     "look at its pages also so many seconds after the beginning, such as 1,5.5",
     .take = take_times},
    {"--resident-on", "SIGNAL",
     "{}: look at them also when this process gets it; what is recorded does not get it",
     .words = "USR1 or USR2", .take = take_signal},
    {0},
};
