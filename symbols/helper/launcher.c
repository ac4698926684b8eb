#include "symbols/helper/launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "symbols/place/helper_wire.h"

#define CLOSE_RANGE 436 /* since Linux 5.9, the same number on all processors */

/* Commands to the launcher, which answers each with LAUNCHED and a status. */
enum { LAUNCHER_SPAWN = 201, LAUNCHER_KILL, LAUNCHER_DONE };

/* ---- the launcher's side: single-threaded, does not allocate */

/*
 * The child: `socket` becomes standard input; all other descriptors but standard error are closed.
 */
static _Noreturn void become_helper(int socket)
{
    static char *const arguments[] = {(char *)"tidemark", (char *)"symbolize", (char *)"--serve",
                                      NULL};
    static char *const environment[] = {(char *)"LC_ALL=C", NULL};
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (dup2(socket, STDIN_FILENO) == 0 && null >= 0 && dup2(null, STDOUT_FILENO) == 1) {
        /* The child inherits only the three standard descriptors, whatever the program had open. */
        if (syscall(CLOSE_RANGE, 3u, ~0u, 0u) != 0) {
            for (int fd = 3; fd < 1024; fd++)
                (void)close(fd);
        }
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        execve("/proc/self/exe", arguments, environment);
    }
    _exit(127);
}

static int reap(pid_t *child, bool kill_it)
{
    int status = 0;
    if (*child <= 0)
        return 0;
    if (kill_it)
        (void)kill(*child, SIGKILL);
    while (waitpid(*child, &status, 0) < 0 && errno == EINTR)
        continue;
    *child = 0;
    return status;
}

/* Reports the status of a child that exited by itself; kills a running one. */
static int end_child(pid_t *child)
{
    int status = 0;
    /* The child may be about to exit: its socket is closed, its status is not available yet. */
    for (int i = 0; *child > 0 && i < 20; i++) {
        if (waitpid(*child, &status, WNOHANG) == *child) {
            *child = 0;
            return status;
        }
        usleep(1000);
    }
    return reap(child, true);
}

static bool answer(int socket, int status)
{
    /* Uses no allocation, which could fail. */
    uint8_t bytes[4];
    const struct buf body = {.data = bytes, .len = sizeof bytes, .cap = sizeof bytes};
    store_u32(bytes, (uint32_t)status);
    return helper_send(socket, (enum helper_type)LAUNCHER_DONE, &body, -1, NULL) == 0;
}

static void launch_all(int socket)
{
    struct helper_message m = HELPER_MESSAGE_EMPTY;
    pid_t child = 0;
    while (helper_receive(socket, &m, 0, NULL, NULL) == 0) {
        int status = end_child(&child);
        if (m.type == LAUNCHER_SPAWN && m.fd >= 0) {
            child = fork();
            if (child == 0)
                become_helper(m.fd);
            status = child < 0 ? errno : 0;
        }
        if (!answer(socket, status))
            break;
    }
    (void)reap(&child, true);
    helper_message_release(&m);
}

/* The program handles the terminal's signals and decides when to exit. */
static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE};

static _Noreturn void be_launcher(int socket, pid_t parent, const sigset_t *before)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != parent)
        _exit(0);
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        (void)signal(ignored[i], SIG_IGN);
    (void)sigprocmask(SIG_SETMASK, before, NULL);
    launch_all(socket);
    _exit(0);
}

/* ---- the program's side */

int launcher_start(struct launcher *l, struct err *e)
{
    int ends[2];
    *l = LAUNCHER_NONE;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return err_errno(e, ERR_CHECK, "cannot start the symbol helper");
    pid_t parent = getpid();
    sigset_t held, before;
    sigemptyset(&held);
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        sigaddset(&held, ignored[i]);
    /* A signal may arrive before the launcher ignores it. */
    (void)sigprocmask(SIG_BLOCK, &held, &before);
    l->pid = fork();
    if (l->pid == 0) {
        close(ends[0]);
        be_launcher(ends[1], parent, &before);
    }
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    close(ends[1]);
    if (l->pid < 0) {
        close(ends[0]);
        return err_errno(e, ERR_CHECK, "cannot start the symbol helper");
    }
    l->socket = ends[0];
    return 0;
}

void launcher_stop(struct launcher *l)
{
    if (l->socket < 0)
        return;
    close(l->socket);
    while (waitpid(l->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    *l = LAUNCHER_NONE;
}

static int tell(struct launcher *l, int what, int fd, int *status, struct err *e)
{
    struct helper_message m = HELPER_MESSAGE_EMPTY;
    int done = -1;
    if (l->socket >= 0 && helper_send(l->socket, (enum helper_type)what, NULL, fd, e) == 0 &&
        helper_receive(l->socket, &m, 0, NULL, e) == 0) {
        struct cursor c = cursor_over(m.body.p, m.body.len);
        *status = (int)cursor_u32(&c);
        done = 0;
    }
    helper_message_release(&m);
    if (done == 0 || (e && e->code == ERR_MEMORY))
        return done;
    return err_set(e, ERR_CHECK, "the symbol helper cannot be started");
}

int launcher_spawn(struct launcher *l, int *socket, struct err *e)
{
    int ends[2], status = 0;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return err_errno(e, ERR_CHECK, "cannot start the symbol helper");
    int done = tell(l, LAUNCHER_SPAWN, ends[1], &status, e);
    close(ends[1]);
    if (done == 0 && status == 0) {
        *socket = ends[0];
        return 0;
    }
    close(ends[0]);
    errno = status;
    return done != 0 ? -1 : err_errno(e, ERR_CHECK, "cannot start the symbol helper");
}

int launcher_kill(struct launcher *l, int *status, struct err *e)
{
    return tell(l, LAUNCHER_KILL, -1, status, e);
}
