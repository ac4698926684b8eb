#ifndef TIDEMARK_SERVER_NET_STOP_H
#define TIDEMARK_SERVER_NET_STOP_H

/*
 * Being asked to stop: SIGINT, SIGTERM and SIGHUP as a readable file descriptor, so that every wait
 * ends at once and nothing happens inside a signal handler.
 */

#include <signal.h>
#include <stdbool.h>

#include "base/err.h"

struct stop {
    int fd;          /* becomes readable; -1: nobody can ask */
    unsigned count;  /* signals taken so far */
    int signal;      /* the first one */
    bool save;       /* SIGUSR1 has come: to be cleared by who does what it asks for */
    sigset_t before; /* the signals that were blocked then */
    sigset_t watched;
};

/*
 * Blocks the three signals for the process and opens the descriptor. SIGHUP is left alone when it
 * is ignored, as nohup does it. SIGINT and SIGTERM are not: shells make what they start in the
 * background ignore SIGINT, and scripts stop a capture with it all the same.
 */
int stop_init(struct stop *s, struct err *e);

/*
 * From now on SIGUSR1 is taken, too. It asks for no end: it sets `save`. After stop_release it is
 * ignored.
 */
int stop_watch_save(struct stop *s, struct err *e);

/* Takes what has arrived, then leaves the signals to what they did before. Harmless when closed. */
void stop_release(struct stop *s);

/* Takes what has arrived. True when a stop was asked for, now or before. */
bool stop_asked(struct stop *s);

/*
 * Waits until `fd` is ready for `events` (poll's), a stop is asked for, or `timeout_ms` have passed
 * (-1: no limit). `fd` may be -1. Returns the ready events, 0 otherwise.
 */
short stop_wait(struct stop *s, int fd, short events, int timeout_ms);

#endif
