#include "run/process_stat.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool process_stat_parse(const char *text, struct process_stat *out)
{
    /* "PID (NAME) STATE PPID ...", where the name may contain any character. */
    const char *name_end = strrchr(text, ')');
    if (!name_end || strlen(name_end) < 5 || name_end[1] != ' ' || name_end[3] != ' ' ||
        name_end[4] < '0' || name_end[4] > '9')
        return false;
    long parent = strtol(name_end + 4, NULL, 10);
    if (parent > INT_MAX)
        return false;
    *out = (struct process_stat){.state = name_end[2], .parent = (pid_t)parent};
    return true;
}

bool process_stat_read(pid_t pid, struct process_stat *out)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    return process_stat_parse(text, out);
}
