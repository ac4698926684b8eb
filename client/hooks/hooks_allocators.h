#pragma once

/*
 * Functions that only jemalloc, mimalloc or tcmalloc have. This library does not export them, since
 * programs test for their allocator with weak references; got.c installs them.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct allocator_function {
    const char *name;
    void (*hook)(void);     /* NULL: calls are not recorded, which is reported */
    _Atomic(uint64_t) real; /* its address; 0: never found */
    uint64_t module;        /* base address of its module, */
    bool found;             /* the module is loaded. Both for got.c */
};

extern struct allocator_function allocator_functions[];
extern const size_t allocator_function_count;

/* A module with one of these symbols may have some of the functions; ends with NULL. */
extern const char *const allocator_signs[];

/* Notes in the recording that the program may call a function that is not recorded. */
void allocator_unseen(const char *name);
