#include "cli/run_adopt.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

int run_adopt_find(struct program *program, pid_t pid, struct err *e)
{
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/%d/exe", (int)pid);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 0) {
        program->missing = true;
        return err_errno(e, ERR_OUTPUT, "process %d cannot be recorded", (int)pid);
    }
    path[n] = 0;
    return program_find(program, path, e);
}

int run_adopt_begin(struct launch *l, pid_t pid, struct err *e)
{
    return launch_adopt(l, pid, e);
}

int run_adopt_tell(const char *socket, struct err *e)
{
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    int status = null >= 0 && printf("%s\n", socket) > 0 && fflush(stdout) == 0 &&
                         dup2(null, STDOUT_FILENO) >= 0
                     ? 0
                     : err_errno(e, ERR_OUTPUT, "cannot tell the process where to connect");
    if (null >= 0)
        close(null);
    return status;
}
