#pragma once

/*
 * Finds the real functions. A symbol look-up may allocate: until it is done, memory comes from a
 * small array and is never freed.
 */

#include "client/state.h"

/* `late`: this library was loaded into a running process, and is not in its global scope. */
void real_find(bool late);

void *real_early(size_t alignment, size_t size);
bool real_is_early(const void *address);
size_t real_early_size(const void *address);

/* The array that they are in. */
const void *real_early_memory(size_t *bytes);

/* Whether this library was loaded into a running process. */
bool real_is_late(void);

/* Whether malloc, calloc, realloc and free are known. */
bool real_is_known(void);

/*
 * When this library was loaded late: the function that the program's calls of that name reach;
 * NULL: there is none. Not a PLT entry of the executable, since that leads through a GOT slot that
 * got.c changes.
 */
void *real_default(const char *name);

/* The next definition of a function after this library's, in the global scope; NULL: none. */
void *real_next(const char *name);

/* dlopen past its hook. NULL also if there is none. */
void *real_dlopen(const char *name, int mode);

/* Whether it is in this library. */
bool real_is_own(const void *address);
