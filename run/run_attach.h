#ifndef TIDEMARK_RUN_RUN_ATTACH_H
#define TIDEMARK_RUN_RUN_ATTACH_H

/* tidemark run --pid: a process that runs already is recorded from now on, for a while. */

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "run/program.h"

struct run_attach {
    pid_t pid; /* 0: none, and nothing below does anything */
    bool attached;
    bool left; /* it was told to go on without us */
};

/* Whether it can be; fills in the program's name. `library` is that which it would load. */
int run_attach_check(const struct run_attach *a, struct program *program, const char *library,
                     struct err *e);

int run_attach_begin(struct run_attach *a, const char *library, const char *socket, struct err *e);

/* Lets it go on as before. What fails is said; false then: it must be told in another way. */
bool run_attach_end(struct run_attach *a);

#endif
