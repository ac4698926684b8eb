#include "server/capture/part_saver.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void write_all(int fd, const void *bytes, size_t n)
{
    const char *p = bytes;
    while (n > 0) {
        ssize_t done = write(fd, p, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return;
        p += done;
        n -= (size_t)done;
    }
}

/* The child also ends when its parent was killed. */
static _Noreturn void be_child(int fd, pid_t parent, void (*work)(void *ctx, struct part_result *r),
                               void *ctx)
{
    struct part_result result = {0};
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        _exit(1);
    work(ctx, &result);
    write_all(fd, &result, sizeof result);
    _exit(0);
}

bool part_saver_start(struct part_saver *p, void (*work)(void *ctx, struct part_result *r),
                      void *ctx)
{
    int ends[2];
    pid_t parent = getpid();
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    fflush(NULL); /* so that the child does not write buffered output again */
    pid_t pid = fork();
    if (pid == 0)
        be_child(ends[1], parent, work, ctx);
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return false;
    }
    *p = (struct part_saver){.pid = pid, .fd = ends[0]};
    return true;
}

static void reap(struct part_saver *p)
{
    while (waitpid(p->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    close(p->fd);
    *p = (struct part_saver){0};
}

/* Reads the whole result, waiting for it: the child writes it last. */
static size_t read_result(int fd, struct part_result *r)
{
    size_t have = 0;
    while (have < sizeof *r) {
        ssize_t n = read(fd, (char *)r + have, sizeof *r - have);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        have += (size_t)n;
    }
    return have;
}

bool part_saver_ended(struct part_saver *p, bool wait, struct part_result *r)
{
    struct pollfd polled = {.fd = p->fd, .events = POLLIN};
    if (!wait && poll(&polled, 1, 0) <= 0)
        return false;
    *r = (struct part_result){0};
    if (read_result(p->fd, r) < sizeof *r) {
        *r = (struct part_result){0};
        err_set(&r->e, ERR_OUTPUT, "the process that saves a part of the trace ended");
    }
    reap(p);
    return true;
}

void part_saver_stop(struct part_saver *p)
{
    if (p->pid <= 0)
        return;
    if (kill(p->pid, SIGKILL) == 0) {
        reap(p);
        return;
    }
    /* A session of the daemon is not allowed to send signals. */
    close(p->fd);
    *p = (struct part_saver){0};
}
