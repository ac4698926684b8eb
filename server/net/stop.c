#include "server/net/stop.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

int stop_init(struct stop *s, struct err *e)
{
    *s = (struct stop){.fd = -1};
    sigemptyset(&s->watched);
    sigaddset(&s->watched, SIGINT);
    sigaddset(&s->watched, SIGTERM);
    struct sigaction hangup;
    if (sigaction(SIGHUP, NULL, &hangup) != 0 || hangup.sa_handler != SIG_IGN)
        sigaddset(&s->watched, SIGHUP);
    s->fd = signalfd(-1, &s->watched, SFD_NONBLOCK | SFD_CLOEXEC);
    if (s->fd >= 0 && sigprocmask(SIG_BLOCK, &s->watched, &s->before) == 0)
        return 0;
    err_errno(e, ERR_OUTPUT, "cannot watch for signals");
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
    return -1;
}

int stop_watch(struct stop *s, enum stop_request request, int taken, struct err *e)
{
    /*
     * A later one must not end the process. signalfd receives the signal although it is ignored.
     */
    (void)signal(taken, SIG_IGN);
    sigaddset(&s->watched, taken);
    s->signals[request] = taken;
    if (sigprocmask(SIG_BLOCK, &s->watched, NULL) != 0 || signalfd(s->fd, &s->watched, 0) < 0)
        return err_errno(e, ERR_OUTPUT, "cannot watch for signals");
    return 0;
}

void stop_release(struct stop *s)
{
    if (s->fd < 0)
        return;
    (void)stop_asked(s);
    close(s->fd);
    s->fd = -1;
    sigprocmask(SIG_SETMASK, &s->before, NULL);
}

struct ending {
    int fd, status;
};

/* Frees its argument, a struct ending. */
static void *end_process(void *argument)
{
    static const char text[] = "tidemark: interrupted after the capture's end\n";
    const struct ending ending = *(const struct ending *)argument;
    struct pollfd polled = {.fd = ending.fd, .events = POLLIN};
    struct signalfd_siginfo info;
    free(argument);
    for (;;) {
        (void)poll(&polled, 1, -1);
        if (read(polled.fd, &info, sizeof info) != (ssize_t)sizeof info ||
            info.ssi_signo == SIGUSR1 || info.ssi_signo == SIGUSR2)
            continue;
        (void)!write(STDERR_FILENO, text, sizeof text - 1);
        _exit(ending.status);
    }
}

void stop_end_with(struct stop *s, int status)
{
    pthread_t thread;
    if (s->fd < 0)
        return;
    (void)stop_asked(s);
    struct ending *ending = malloc(sizeof *ending);
    if (ending)
        *ending = (struct ending){s->fd, status};
    if (!ending || pthread_create(&thread, NULL, end_process, ending) != 0) {
        free(ending);
        stop_release(s);
        return;
    }
    (void)pthread_detach(thread);
    s->fd = -1;
}

bool stop_asked(struct stop *s)
{
    struct signalfd_siginfo info;
    while (s->fd >= 0 && read(s->fd, &info, sizeof info) == (ssize_t)sizeof info) {
        int taken = (int)info.ssi_signo, i = 0;
        while (i < STOP_REQUESTS && s->signals[i] != taken)
            i++;
        if (i < STOP_REQUESTS)
            s->asked[i] = true;
        else if (s->count++ == 0)
            s->signal = taken;
    }
    return s->count != 0;
}

short stop_wait(struct stop *s, int fd, short events, int timeout_ms)
{
    struct pollfd polled[2] = {{.fd = fd, .events = events}, {.fd = s->fd, .events = POLLIN}};
    if (poll(polled, 2, timeout_ms) <= 0)
        return 0;
    return polled[0].revents;
}
