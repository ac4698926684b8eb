#include "base/process_limit.h"

uint64_t file_limit_raise(struct file_limit *l, uint64_t wanted)
{
    struct rlimit now;
    if (getrlimit(RLIMIT_NOFILE, &now) != 0)
        return wanted;
    uint64_t before = now.rlim_cur;
    if (before >= wanted) /* RLIM_INFINITY is covered, too */
        return before;
    now.rlim_cur = now.rlim_max < wanted ? now.rlim_max : wanted;
    if (now.rlim_cur <= before || setrlimit(RLIMIT_NOFILE, &now) != 0)
        return before;
    l->before = before;
    return now.rlim_cur;
}

void file_limit_restore(const struct file_limit *l)
{
    struct rlimit now;
    if (!l->before || getrlimit(RLIMIT_NOFILE, &now) != 0)
        return;
    now.rlim_cur = l->before;
    (void)setrlimit(RLIMIT_NOFILE, &now);
}
