#include "server/descent.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A chain of parents that is longer changes while it is read. */
#define GENERATIONS 1000

/* 0: there is none, or it cannot be looked at. */
static pid_t parent_of(pid_t pid)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    /* "PID (NAME) STATE PPID ...", where the name may have any character. */
    const char *name_end = strrchr(text, ')');
    if (!name_end || strlen(name_end) < 4)
        return 0;
    return (pid_t)strtol(name_end + 4, NULL, 10);
}

bool descends_from(pid_t pid, pid_t ancestor)
{
    for (unsigned i = 0; i < GENERATIONS && pid > 0; i++) {
        if (pid == ancestor)
            return true;
        pid = parent_of(pid);
    }
    return false;
}
