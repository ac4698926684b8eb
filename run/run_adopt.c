#include "run/run_adopt.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/format.h"

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
    int status =
        null >= 0 && printf("%s\n", socket) > 0 && fflush(stdout) == 0 &&
                dup2(null, STDOUT_FILENO) >= 0
            ? 0
            : err_errno(e, ERR_OUTPUT, "cannot send the process the address of its collector");
    if (null >= 0)
        close(null);
    return status;
}

void run_adopt_refuse(const struct err *e)
{
    printf("!%s\n", e->text);
    fflush(stdout);
}

void run_adopt_brief(pid_t pid, const char *program, double seconds)
{
    struct buf name = {0};
    const char *slash = strrchr(program, '/');
    format_terminal(&name, view_of(slash ? slash + 1 : program));
    fprintf(stderr,
            "tidemark: process %d (%s) ended within %g s: no trace; TIDEMARK_PROGRAM=%s records "
            "it\n",
            (int)pid, buf_str(&name), seconds, buf_str(&name));
    buf_release(&name);
}
