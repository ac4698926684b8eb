#ifndef TIDEMARK_SERVER_DAEMON_JOBS_H
#define TIDEMARK_SERVER_DAEMON_JOBS_H

/*
 * Short work that the daemon has done by other processes: pages of traces, commands and requests
 * that tell of events. A job has a limit of time, and what it says on standard error is kept, up to
 * JOB_WORDS_MAX bytes; nothing here waits.
 */

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/file_limit.h"
#include "base/vec.h"

#define JOB_WORDS_MAX 4096u

struct job;

struct job_plan {
    /* Runs in the new process, which has no descriptors but the three; returns its exit status. */
    int (*body)(void *arg);
    void *arg;
    int in, out;      /* what its standard input and output are; -1: /dev/null */
    double seconds;   /* killed when it takes longer, with all that is in its process group */
    bool with_parent; /* it ends when the daemon does, even if that is killed */
    /* It has ended, and `words` is what it said. The job is gone when this returns. */
    void (*done)(void *ctx, const struct job *job);
    /* Instead of `done`, when the jobs are released before it has ended; NULL: nothing is to do. */
    void (*dropped)(void *ctx);
    void *ctx;
    uint64_t note; /* for the caller's own use */
};

struct job {
    struct job_plan plan;
    pid_t pid;
    int ended; /* pidfd: readable when it has ended; -1: this kernel has none, it is asked for */
    int heard; /* read end of its standard error; -1 once that is closed */
    struct buf said;
    const char *words;  /* when it has ended: `said` without line ends at its end; "" nothing */
    long long deadline; /* monotonic ns */
    bool late;          /* it was killed for taking too long */
    int status;         /* exit status, or 128 + signal */
};

struct jobs {
    VEC(struct job *) list;
    struct file_limit files; /* what was raised for the daemon alone */
};

/* Begins one. ERR_CONNECT, ERR_MEMORY. */
int jobs_begin(struct jobs *j, const struct job_plan *plan, struct err *e);

/* What to wait for: so many descriptors, of which any may be -1. */
size_t jobs_polled(const struct jobs *j);
void jobs_poll(const struct jobs *j, struct pollfd *out);

/* Takes what they say, tells of those that have ended, and ends what takes too long. */
void jobs_turn(struct jobs *j);

/* Kills those that are left, and drops them. */
void jobs_release(struct jobs *j);

#endif
