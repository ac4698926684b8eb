#ifndef TIDEMARK_RUN_LAUNCH_H
#define TIDEMARK_RUN_LAUNCH_H

/*
 * Runs a program as its parent, as `time` does: it has our standard streams and is in our process
 * group, so what the terminal sends it gets by itself; a signal that somebody sends to us alone is
 * passed on. Nothing of ours is changed in it but its environment.
 */

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

struct launch {
    pid_t pid;       /* 0: not started, or ended and taken note of */
    int signals;     /* readable when a signal is there, of the program's end too; -1 */
    sigset_t before; /* what was blocked when we began, and is in the program */
    int kept;        /* a signal that is not passed on but counted; 0: none */
    unsigned counted;
    bool asked;   /* a signal to end came: SIGINT, SIGTERM, SIGHUP, SIGQUIT */
    bool adopted; /* it is no child of ours: no signals for it, and nobody knows its status */
    int process;  /* then: its pidfd; -1 */
    bool ended;
    int status; /* then: what waitpid said */
};

#define LAUNCH_NONE ((struct launch){.process = -1, .signals = -1})

/* Blocks the signals that are watched. To be called before anything is started. */
int launch_init(struct launch *l, struct err *e);

/* Gives the signals back. The program, if it runs, goes on. */
void launch_release(struct launch *l);

struct launch_plan {
    const char *path; /* of the file */
    char *const *arguments;
    char *const *environment; /* as execve takes them */
    /* Told the process's id before it becomes the program. May be NULL. */
    void (*forked)(void *ctx, pid_t pid);
    void *ctx;
};

/*
 * Starts a program. ERR_OUTPUT when the kernel does not; *missing then tells whether a shell's exit
 * status were 127, not 126.
 */
int launch_program(struct launch *l, const struct launch_plan *plan, bool *missing, struct err *e);

/* Watches a process that runs already, instead of starting one. ERR_OUTPUT when there is none. */
int launch_adopt(struct launch *l, pid_t pid, struct err *e);

/* Takes the signals that have come: passes them on, and takes note of the program's end. */
void launch_take_signals(struct launch *l);

/* As launch_take_signals does for one that somebody else sends. Harmless when it does not run. */
void launch_signal(const struct launch *l, int signal);

/* What a shell says of the end: its exit status, or 128 + N when signal N ended it. */
int launch_exit_status(const struct launch *l);

#endif
