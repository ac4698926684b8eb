#pragma once

/* The environment of a program that is to load the preload library. */

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/vec.h"

struct run_environment_plan {
    const char *library; /* NULL: the one that comes with this program */
    const char *folder;  /* for a link to it, if LD_PRELOAD cannot contain its path */
    const char *socket;
    bool gpu;                /* also load the library for device memory, from the same folder */
    const char *const *more; /* NAME=VALUE */
    size_t count;
};

struct run_environment {
    char **list; /* for execve */
    size_t count;
    char *link; /* the link, if one was made */
};

/* The path of the library to load, which the caller frees; `given` may be NULL. */
char *run_environment_library(const char *given, struct err *e);

/* ERR_OUTPUT when there is no library. */
int run_environment_make(struct run_environment *v, const struct run_environment_plan *plan,
                         struct err *e);

/* Also removes the link. */
void run_environment_release(struct run_environment *v);
