#pragma once

/*
 * Runs a program as a child, as `time` does: it has the same standard streams and process group, so
 * that it gets the terminal's signals itself. Signals that are sent to this process alone are
 * passed on. Only the environment differs.
 */

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

struct launch {
    pid_t pid;       /* 0: not started, or ended and reaped */
    int signals;     /* readable on a signal, including the program's end; -1 */
    sigset_t before; /* the original signal mask, which the program gets */
    /* Signals that are counted instead of passed on. */
    struct launch_kept {
        int signal; /* 0: none */
        unsigned count;
    } kept[2];
    bool asked;   /* received SIGINT, SIGTERM, SIGHUP or SIGQUIT */
    bool adopted; /* not a child: gets no signals, and its status is unknown */
    int process;  /* its pidfd, if adopted; -1 */
    bool ended;
    int status; /* from waitpid, if a child */
};

#define LAUNCH_NONE ((struct launch){.process = -1, .signals = -1})

/* Blocks the signals that are watched. Call it before any process is started. */
int launch_init(struct launch *l, struct err *e);

/* Restores the signal mask. A running program goes on. */
void launch_release(struct launch *l);

struct launch_plan {
    const char *path; /* of the file */
    char *const *arguments;
    char *const *environment; /* for execve */
    bool may_be_script;       /* as shells do: if the kernel knows no such format, sh reads it */
    /* Called with the process id before the child executes the program. May be NULL. */
    void (*forked)(void *ctx, pid_t pid);
    void *ctx;
};

/*
 * Starts a program. ERR_OUTPUT when exec fails; *missing: a shell's exit status would be 127, not
 * 126.
 */
int launch_program(struct launch *l, const struct launch_plan *plan, bool *missing, struct err *e);

/* Watches a running process instead of starting one. ERR_OUTPUT when there is none. */
int launch_adopt(struct launch *l, pid_t pid, struct err *e);

/* Handles pending signals: passes them on, and reaps the program. */
void launch_take_signals(struct launch *l);

/* The exit status as a shell reports it: 128 + N when signal N ended it. */
int launch_exit_status(const struct launch *l);
