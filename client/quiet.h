#pragma once

/*
 * Critical sections that must not be left in the middle: under a lock, or with incomplete data.
 * Signals are blocked, since a handler may jump away. Cancellation is disabled, since malloc is not
 * a cancellation point but functions called here may be. errno is preserved.
 */

#include <errno.h>
#include <pthread.h>
#include <signal.h>

struct quiet {
    sigset_t signals;
    int cancellation, error;
};

static inline void quiet_begin(struct quiet *q)
{
    sigset_t all;
    q->error = errno;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &q->signals);
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &q->cancellation);
}

static inline void quiet_end(const struct quiet *q)
{
    (void)pthread_setcancelstate(q->cancellation, NULL);
    (void)pthread_sigmask(SIG_SETMASK, &q->signals, NULL);
    errno = q->error;
}
