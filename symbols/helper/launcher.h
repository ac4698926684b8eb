#ifndef TIDEMARK_SYMBOLS_HELPER_LAUNCHER_H
#define TIDEMARK_SYMBOLS_HELPER_LAUNCHER_H

/*
 * A small process that starts others: forked while the program has no threads and has read nothing
 * of strangers, so that what it forks later has neither. It starts this same program again, as
 * `tidemark symbolize --serve` with a socket as standard input, one process at a time.
 */

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

struct launcher {
    int socket; /* -1: there is none */
    pid_t pid;
};

#define LAUNCHER_NONE ((struct launcher){.socket = -1})

/* To be called before there are threads. */
int launcher_start(struct launcher *l, struct err *e);

/* Ends it, and what it started. */
void launcher_stop(struct launcher *l);

/*
 * Starts the process anew; one that runs is killed. *socket is our end of the pair, the caller's to
 * close.
 */
int launcher_spawn(struct launcher *l, int *socket, struct err *e);

/* Kills the process; *status is what waitpid says of it, also when it had ended before. */
int launcher_kill(struct launcher *l, int *status, struct err *e);

#endif
