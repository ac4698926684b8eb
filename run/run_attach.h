#pragma once

/* tidemark run --pid: records a running process from now on, for a while. */

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "run/program.h"

struct run_attach {
    pid_t pid; /* 0: none, and no function below has an effect */
    bool attached;
    bool left; /* it was detached */
};

/*
 * Checks whether it can be recorded; fills in the program's name. `library` is the one that it
 * would load.
 */
int run_attach_check(const struct run_attach *a, struct program *program, const char *library,
                     struct err *e);

int run_attach_begin(struct run_attach *a, const char *library, const char *socket, struct err *e);

/* Detaches from the process. Prints errors; false then: it must be detached in another way. */
bool run_attach_end(struct run_attach *a);
