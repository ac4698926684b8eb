#pragma once

/*
 * Short tasks that the daemon runs in child processes: reports of traces, commands and requests
 * about events. A job has a time limit. Up to JOB_WORDS_MAX bytes of its standard error are kept.
 * No call blocks.
 */

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/process_limit.h"
#include "base/vec.h"

#define JOB_WORDS_MAX 4096u

struct job;

struct job_plan {
    /* Runs in the child, which has only the three standard descriptors; returns its exit status. */
    int (*body)(void *arg);
    void *arg;
    int in, out;      /* its standard input and output; -1: /dev/null */
    double seconds;   /* its process group is killed after this time */
    bool with_parent; /* it is killed when the daemon ends */
    /* It has ended, and `words` is its output. The job is freed when this returns. */
    void (*done)(void *ctx, const struct job *job);
    /* Called instead of `done` when the jobs are released before it has ended; may be NULL. */
    void (*dropped)(void *ctx);
    void *ctx;
    uint64_t note; /* for the caller */
};

struct job {
    struct job_plan plan;
    pid_t pid;
    int ended; /* pidfd: readable when it has ended; -1: not supported, waitpid is polled */
    int heard; /* read end of its standard error; -1 once that is closed */
    struct buf said;
    const char *words;  /* set at the end: `said` without trailing line ends; "": nothing */
    long long deadline; /* monotonic ns */
    bool late;          /* killed for exceeding its time */
    int status;         /* exit status, or 128 + signal */
};

struct jobs {
    VEC(struct job *) list;
    struct file_limit files; /* the raised limit, to be restored in children */
};

/* Starts a job. ERR_CONNECT, ERR_MEMORY. */
int jobs_begin(struct jobs *j, const struct job_plan *plan, struct err *e);

/* The number of descriptors to poll, of which any may be -1. */
size_t jobs_polled(const struct jobs *j);
void jobs_poll(const struct jobs *j, struct pollfd *out);

/* Reads the output of jobs, calls `done` for those that have ended, and kills overdue ones. */
void jobs_turn(struct jobs *j);

/* Kills and drops all remaining jobs. */
void jobs_release(struct jobs *j);
