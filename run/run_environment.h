#ifndef TIDEMARK_RUN_RUN_ENVIRONMENT_H
#define TIDEMARK_RUN_RUN_ENVIRONMENT_H

/* The environment of a program that is to load the preload library. */

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/vec.h"

struct run_environment_plan {
    const char *library; /* NULL: the one that came with this program */
    const char *folder;  /* for a link to it, where its own path cannot stand in LD_PRELOAD */
    const char *socket;
    bool gpu;                /* the library for device memory, from the same folder, as well */
    const char *const *more; /* NAME=VALUE */
    size_t count;
};

struct run_environment {
    char **list; /* as execve takes it */
    size_t count;
    char *link; /* a link that was made */
};

/* The path of the library that is to be loaded, allocated; `given` may be NULL. */
char *run_environment_library(const char *given, struct err *e);

/* ERR_OUTPUT when there is no library. */
int run_environment_make(struct run_environment *v, const struct run_environment_plan *plan,
                         struct err *e);

/* Also removes the link. */
void run_environment_release(struct run_environment *v);

#endif
