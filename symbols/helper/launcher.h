#pragma once

/*
 * A small process that starts helpers. It is forked while the program has no threads and has read
 * no untrusted data, so its children inherit neither. It starts the same program as `tidemark
 * symbolize --serve` with a socket as standard input, one process at a time.
 */

#include <sys/types.h>

#include "base/err.h"

struct launcher {
    int socket; /* -1: not running */
    pid_t pid;
};

#define LAUNCHER_NONE ((struct launcher){.socket = -1})

/* Call before creating threads. */
int launcher_start(struct launcher *l, struct err *e);

/* Stops the launcher and its helper. */
void launcher_stop(struct launcher *l);

/* Starts a new helper and kills a running one. The caller closes *socket, its end of the pair. */
int launcher_spawn(struct launcher *l, int *socket, struct err *e);

/* Kills the helper. *status is its status from waitpid, even if it exited before. */
int launcher_kill(struct launcher *l, int *status, struct err *e);
