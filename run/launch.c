#include "run/launch.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const int watched[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD, SIGUSR1, SIGUSR2};

int launch_init(struct launch *l, struct err *e)
{
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof watched / sizeof *watched; i++)
        sigaddset(&set, watched[i]);
    *l = LAUNCH_NONE;
    l->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (l->signals >= 0 && sigprocmask(SIG_BLOCK, &set, &l->before) == 0)
        return 0;
    err_errno(e, ERR_OUTPUT, "cannot watch for signals");
    if (l->signals >= 0)
        close(l->signals);
    *l = LAUNCH_NONE;
    return -1;
}

void launch_release(struct launch *l)
{
    struct signalfd_siginfo info;
    if (l->process >= 0)
        close(l->process);
    l->process = -1;
    if (l->signals < 0)
        return;
    /* Signals that were already passed on must not end this process now. */
    while (read(l->signals, &info, sizeof info) == (ssize_t)sizeof info)
        continue;
    close(l->signals);
    l->signals = -1;
    sigprocmask(SIG_SETMASK, &l->before, NULL);
}

/*
 * Runs in the child: waits for permission to go on, then executes the program, or reports why it
 * could not.
 */
static _Noreturn void become(const struct launch *l, const struct launch_plan *plan, int socket)
{
    char go;
    if (read(socket, &go, 1) != 1)
        _exit(127);
    (void)sigprocmask(SIG_SETMASK, &l->before, NULL);
    if (plan->may_be_script && strchr(plan->path, '/')) /* else PATH would be searched */
        (void)execvpe(plan->path, plan->arguments, plan->environment);
    else
        (void)execve(plan->path, plan->arguments, plan->environment);
    int cause = errno;
    (void)!write(socket, &cause, sizeof cause);
    _exit(127);
}

/* Lets the child go on. 0 when it executed the program, else errno. */
static int let_go(struct launch *l, const struct launch_plan *plan, int socket)
{
    int cause = 0;
    ssize_t n;
    if (plan->forked)
        plan->forked(plan->ctx, l->pid);
    (void)!write(socket, "", 1);
    while ((n = read(socket, &cause, sizeof cause)) < 0 && errno == EINTR)
        continue;
    if (n != (ssize_t)sizeof cause)
        return 0; /* exec closed the socket */
    while (waitpid(l->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    return cause;
}

int launch_program(struct launch *l, const struct launch_plan *plan, bool *missing, struct err *e)
{
    int ends[2];
    *missing = false;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return err_errno(e, ERR_OUTPUT, "cannot start %s", plan->path);
    l->pid = fork();
    if (l->pid == 0) {
        close(ends[0]);
        become(l, plan, ends[1]);
    }
    int cause = l->pid < 0 ? errno : 0;
    close(ends[1]);
    if (cause == 0)
        cause = let_go(l, plan, ends[0]);
    close(ends[0]);
    if (cause == 0)
        return 0;
    l->pid = 0;
    *missing = cause == ENOENT || cause == ENOTDIR;
    errno = cause;
    return err_errno(e, ERR_OUTPUT, "cannot start %s", plan->path);
}

int launch_adopt(struct launch *l, pid_t pid, struct err *e)
{
    if (pid <= 0 || kill(pid, 0) != 0)
        return err_set(e, ERR_OUTPUT, "there is no process %d to adopt", (int)pid);
    l->pid = pid;
    l->adopted = true;
    l->process = (int)syscall(SYS_pidfd_open, pid, 0); /* -1 before Linux 5.3 */
    return 0;
}

/* Sends it a signal as launch_take_signals does. Harmless when it does not run. */
static void launch_signal(const struct launch *l, int signal)
{
    if (l->pid > 0 && !l->adopted)
        (void)kill(l->pid, signal);
}

static bool adopted_ended(const struct launch *l)
{
    struct pollfd end = {.fd = l->process, .events = POLLIN};
    return l->process >= 0 ? poll(&end, 1, 0) > 0 : kill(l->pid, 0) != 0;
}

static void take_end(struct launch *l)
{
    int status = 0;
    if (l->pid > 0 &&
        (l->adopted ? adopted_ended(l) : waitpid(l->pid, &status, WNOHANG) == l->pid)) {
        l->status = status;
        l->ended = true;
        l->pid = 0;
    }
}

void launch_take_signals(struct launch *l)
{
    struct signalfd_siginfo info;
    while (l->signals >= 0 && read(l->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        int signal = (int)info.ssi_signo;
        if (signal == SIGCHLD)
            continue;
        struct launch_kept *kept = signal == l->kept[0].signal   ? &l->kept[0]
                                   : signal == l->kept[1].signal ? &l->kept[1]
                                                                 : NULL;
        if (kept) {
            kept->count++;
            continue;
        }
        if (signal != SIGUSR1 && signal != SIGUSR2)
            l->asked = true;
        /* The terminal sends its signals to the whole group. */
        if (info.ssi_code != SI_KERNEL)
            launch_signal(l, signal);
    }
    take_end(l);
}

int launch_exit_status(const struct launch *l)
{
    return WIFSIGNALED(l->status) ? 128 + WTERMSIG(l->status) : WEXITSTATUS(l->status);
}
