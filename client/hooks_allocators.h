#ifndef TIDEMARK_CLIENT_HOOKS_ALLOCATORS_H
#define TIDEMARK_CLIENT_HOOKS_ALLOCATORS_H

/*
 * Functions that only jemalloc, mimalloc or tcmalloc have. They are no names of this library, since
 * programs ask for them weakly to find out which allocator they have; got.c puts them in place.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct allocator_function {
    const char *name;
    void (*hook)(void);     /* NULL: calls of it are not recorded, which is to be said */
    _Atomic(uint64_t) real; /* where it is; 0: never seen */
    uint64_t module;        /* where that module lies, */
    bool found;             /* which is there now. Both are got.c's */
};

extern struct allocator_function allocator_functions[];
extern const size_t allocator_function_count;

/* A module that has one of these may have some of the functions; ends with NULL. */
extern const char *const allocator_signs[];

/* Notes in the recording that the program may call a function that is not recorded. */
void allocator_unseen(const char *name);

#endif
