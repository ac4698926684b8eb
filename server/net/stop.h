#pragma once

/*
 * Requests to stop: SIGINT, SIGTERM and SIGHUP as a readable file descriptor, so that every wait
 * ends at once and no code runs in a signal handler.
 */

#include <signal.h>
#include <stdbool.h>

#include "base/err.h"

/* Requests other than to stop, each with a signal. */
enum stop_request { STOP_SAVE, STOP_LOOK, STOP_REQUESTS };

struct stop {
    int fd;                     /* becomes readable on a signal; -1: signals are not taken */
    unsigned count;             /* signals taken so far */
    int signal;                 /* the first one */
    int signals[STOP_REQUESTS]; /* 0: not taken */
    bool asked[STOP_REQUESTS];  /* the signal has arrived; its handler clears this */
    sigset_t before;            /* the previous signal mask */
    sigset_t watched;
};

/*
 * Blocks the three signals for the process and opens the descriptor. An ignored SIGHUP stays
 * ignored, for nohup. SIGINT and SIGTERM are taken even if ignored: shells make background
 * processes ignore SIGINT, and scripts still stop a capture with it.
 */
int stop_init(struct stop *s, struct err *e);

/*
 * From now on the signal `taken` is received, too: it sets asked[request] and does not stop. After
 * stop_release it is ignored.
 */
int stop_watch(struct stop *s, enum stop_request request, int taken, struct err *e);

/* Takes pending signals, then restores the signal mask. Harmless when closed. */
void stop_release(struct stop *s);

/*
 * Takes pending signals. From then on a signal ends the process at once with this exit status,
 * instead of its default action. For a process whose result is complete and that is about to exit:
 * a thread waits for the signals until then. `s` is closed, the signal mask remains. If no thread
 * can be started, this is stop_release.
 */
void stop_end_with(struct stop *s, int status);

/* Takes pending signals. True when a stop was requested, now or before. */
bool stop_asked(struct stop *s);

/*
 * Waits until `fd` is ready for `events` (as in poll), a stop is requested, or `timeout_ms` have
 * passed (-1: no limit). `fd` may be -1. Returns the ready events, otherwise 0.
 */
short stop_wait(struct stop *s, int fd, short events, int timeout_ms);
