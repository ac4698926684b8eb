#ifndef TIDEMARK_TRACE_MERGE_MERGE_STEP_H
#define TIDEMARK_TRACE_MERGE_MERGE_STEP_H

/*
 * Readers of several traces that go on in step. A reader pushes its records, so each has a thread
 * of its own; but only one of them runs at any time, and only while the caller waits in step_on. So
 * sinks need no locks.
 */

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct step {
    /* Set by the caller. */
    void *ctx;
    int (*run)(void *ctx, struct step *s, struct err *e); /* reads all of the trace */
    /* For step_on and step_wait. */
    pthread_t thread;
    sem_t go, back;
    bool started, ended;
    bool stop; /* the reader must give up */
    int status;
    struct err err;
};

/* Starts the reader, which waits for step_on. */
int step_start(struct step *s, struct err *e);

/* Lets the reader run until it waits or ends. -1 with its error when it failed. */
int step_on(struct step *s, struct err *e);

/* For the reader: back to the caller of step_on until the next. -1 when it must give up. */
int step_wait(struct step *s, struct err *e);

/* Makes the reader give up when it has not ended, and waits for it. */
void step_end(struct step *s);

#endif
