#pragma once

/*
 * Runs the readers of several traces in step. A reader pushes its records, so each has a separate
 * thread. Only one of them runs at a time, and only while the caller waits in step_on, so sinks
 * need no locks.
 */

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct step {
    /* Set by the caller. */
    void *ctx;
    int (*run)(void *ctx, struct step *s, struct err *e); /* reads the whole trace */
    /* Internal to step_on and step_wait. */
    pthread_t thread;
    sem_t go, back;
    bool started, ended;
    bool stop; /* the reader must abort */
    int status;
    struct err err;
};

/* Starts the reader, which waits for step_on. */
int step_start(struct step *s, struct err *e);

/* Lets the reader run until it waits or ends. -1 with its error when it failed. */
int step_on(struct step *s, struct err *e);

/*
 * Called by the reader: returns control to the caller of step_on until the next call. -1 when the
 * reader must abort.
 */
int step_wait(struct step *s, struct err *e);

/* Aborts the reader if it has not ended, and joins its thread. */
void step_end(struct step *s);
