#ifndef TIDEMARK_BASE_LIBRARY_H
#define TIDEMARK_BASE_LIBRARY_H

/*
 * Shared libraries that only some commands need, and that take milliseconds to load: they are
 * loaded when they are needed, not whenever the program starts.
 */

#include <stdbool.h>
#include <stddef.h>

struct library_function {
    const char *name;
    void *at; /* where the pointer to the function goes */
};

/* The handle for library_unload; NULL when there is no such library or it lacks a function. */
void *library_load(const char *soname, const struct library_function *functions, size_t n);

/* NULL is harmless. */
void library_unload(void *handle);

#endif
