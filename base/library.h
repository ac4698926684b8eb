#ifndef TIDEMARK_BASE_LIBRARY_H
#define TIDEMARK_BASE_LIBRARY_H

/*
 * Loads shared libraries on demand: only some commands need them, and loading takes milliseconds.
 */

#include <stdbool.h>
#include <stddef.h>

struct library_function {
    const char *name;
    void *at; /* receives the function pointer */
};

/* Returns a handle for library_unload; NULL when the library or one of the functions is missing. */
void *library_load(const char *soname, const struct library_function *functions, size_t n);

/* Accepts NULL. */
void library_unload(void *handle);

#endif
