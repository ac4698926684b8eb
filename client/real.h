#ifndef TIDEMARK_CLIENT_REAL_H
#define TIDEMARK_CLIENT_REAL_H

/*
 * Finding the real functions, and memory while that goes on: looking up a symbol may itself
 * allocate. What is handed out then lies in a small array and is never freed.
 */

#include "client/state.h"

/* `late`: this library was loaded into a process that ran already, and is not in its scope. */
void real_find(bool late);

void *real_early(size_t alignment, size_t size);
bool real_is_early(const void *address);
size_t real_early_size(const void *address);

/* Where they all lie. */
const void *real_early_memory(size_t *bytes);

/* Whether this library was loaded into a process that ran already. */
bool real_is_late(void);

/* Whether malloc, calloc, realloc and free are known. */
bool real_is_known(void);

/*
 * The function that the program's calls of that name reach when this library came late; NULL: there
 * is none. Not a PLT entry of the executable, which leads through a place that got.c changes.
 */
void *real_default(const char *name);

/* The next definition of a function behind this library's, in the global scope; NULL: none. */
void *real_next(const char *name);

/* Whether it lies in this library. */
bool real_is_own(const void *address);

#endif
