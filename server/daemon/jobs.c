#include "server/daemon/jobs.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file_io.h"
#include "base/monotonic.h"
#include "server/net/stop.h"

#define READS_PER_TURN 32u

/* ---- the child process */

/* The daemon blocks signals; restores the defaults for the programs that it starts. */
static void reset_signals(void)
{
    static const int ours[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXFSZ, SIGCHLD};
    sigset_t none;
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        (void)signal(ours[i], SIG_DFL);
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* A job's descriptors beside those of its plan. */
struct job_ends {
    int words; /* the pipe to the daemon: its standard error */
    int null;  /* /dev/null, for what the plan leaves open */
    pid_t daemon;
};

static int be_job(const struct job_plan *plan, const struct file_limit *files, struct job_ends ends)
{
    reset_signals();
    file_limit_restore(files);
    if (plan->with_parent) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != ends.daemon)
            return 1;
    }
    /* The descriptors are above 2, since the daemon has 0 to 2 open. */
    if (setpgid(0, 0) != 0 || dup2(ends.words, STDERR_FILENO) < 0 ||
        dup2(plan->in >= 0 ? plan->in : ends.null, STDIN_FILENO) < 0 ||
        dup2(plan->out >= 0 ? plan->out : ends.null, STDOUT_FILENO) < 0)
        return 1;
    (void)file_close_range(3, ~0u);
    int status = plan->body(plan->arg);
    return fflush(stdout) == 0 || status ? status : 1;
}

/* ---- in the daemon */

static void job_free(struct job *one)
{
    if (one->heard >= 0)
        close(one->heard);
    if (one->ended >= 0)
        close(one->ended);
    buf_release(&one->said);
    free(one);
}

static int start(struct job *one, const struct file_limit *files, struct err *e)
{
    int pipes[2];
    struct job_ends ends = {.daemon = getpid()};
    /* Opened here, where an error can be reported: the child could only exit. */
    ends.null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (ends.null < 0)
        return err_errno(e, ERR_CONNECT, "cannot begin a process");
    if (pipe2(pipes, O_CLOEXEC) != 0) {
        err_errno(e, ERR_CONNECT, "cannot begin a process");
        close(ends.null);
        return -1;
    }
    ends.words = pipes[1];
    fflush(NULL);
    one->pid = fork();
    if (one->pid == 0)
        _exit(be_job(&one->plan, files, ends));
    close(pipes[1]);
    close(ends.null);
    one->heard = pipes[0];
    if (one->pid < 0)
        return err_errno(e, ERR_CONNECT, "cannot begin a process");
    (void)setpgid(one->pid, one->pid);
    (void)fcntl(one->heard, F_SETFL, O_NONBLOCK);
    one->ended = (int)syscall(SYS_pidfd_open, one->pid, 0);
    return 0;
}

int jobs_begin(struct jobs *j, const struct job_plan *plan, struct err *e)
{
    struct job *one = calloc(1, sizeof *one);
    if (!one || !vec_reserve(&j->list, j->list.len + 1)) {
        free(one);
        return err_no_memory(e, "a process");
    }
    one->plan = *plan;
    one->heard = one->ended = -1;
    one->deadline = monotonic_ns() + (long long)(plan->seconds * 1e9);
    if (start(one, &j->files, e) != 0) {
        job_free(one);
        return -1;
    }
    j->list.at[j->list.len++] = one;
    return 0;
}

size_t jobs_polled(const struct jobs *j)
{
    return 2 * j->list.len;
}

void jobs_poll(const struct jobs *j, struct pollfd *out)
{
    for (size_t i = 0; i < j->list.len; i++) {
        out[2 * i] = (struct pollfd){.fd = j->list.at[i]->heard, .events = POLLIN};
        out[2 * i + 1] = (struct pollfd){.fd = j->list.at[i]->ended, .events = POLLIN};
    }
}

/*
 * Reads more than a pipe holds, so that a job is not blocked for long and nothing remains unread
 * when it has ended; but not without limit, since it may write as fast as the daemon reads. Only
 * the first part is kept.
 */
static void hear(struct job *one)
{
    char bytes[4096];
    for (unsigned i = 0; one->heard >= 0 && i < READS_PER_TURN; i++) {
        ssize_t n = read(one->heard, bytes, sizeof bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            close(one->heard);
            one->heard = -1;
            return;
        }
        size_t room = JOB_WORDS_MAX - one->said.len;
        buf_put(&one->said, bytes, (size_t)n < room ? (size_t)n : room);
    }
}

static bool has_ended(struct job *one)
{
    int status;
    pid_t pid = waitpid(one->pid, &status, WNOHANG);
    if (pid == 0 || (pid < 0 && errno == EINTR))
        return false;
    one->status = 1;
    if (pid == one->pid)
        one->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return true;
}

void jobs_turn(struct jobs *j)
{
    long long now = monotonic_ns();
    for (size_t i = 0; i < j->list.len; i++) {
        struct job *one = j->list.at[i];
        bool ended = has_ended(one);
        hear(one);
        if (!ended && now >= one->deadline && !one->late) {
            one->late = true;
            (void)kill(-one->pid, SIGKILL);
        }
        if (!ended)
            continue;
        while (one->said.len && one->said.data[one->said.len - 1] == '\n')
            one->said.len--;
        one->words = buf_str(&one->said);
        /* `done` may start further jobs. */
        j->list.at[i--] = j->list.at[--j->list.len];
        one->plan.done(one->plan.ctx, one);
        job_free(one);
    }
}

void jobs_release(struct jobs *j)
{
    for (size_t i = 0; i < j->list.len; i++) {
        struct job *one = j->list.at[i];
        (void)kill(-one->pid, SIGKILL);
        while (waitpid(one->pid, NULL, 0) < 0 && errno == EINTR)
            ;
        if (one->plan.dropped)
            one->plan.dropped(one->plan.ctx);
        job_free(one);
    }
    vec_release(&j->list);
}
