#pragma once

/*
 * Installs hooks by changing the GOT, where preloading does not work: in a running process
 * (tidemark run --pid), in libraries that dlopen binds to their own dependencies first
 * (RTLD_DEEPBIND), and for functions that only some allocators have, whose presence a program may
 * test if this library exported them. A GOT slot is changed only if it holds the function's
 * address, or its module's own lazy-binding stub.
 */

#include <stdbool.h>
#include <stdint.h>

#include "client/recording_format.h"

/* Changes the slots of all loaded modules. */
void got_hook(bool mappings);

/* The same for modules loaded after the first `loads` ones. */
void got_hook_since(uint64_t loads, bool mappings);

/*
 * Returns the functions of got_hook, and the library's memory that holds their real addresses: for
 * the collector, which searches copies of these addresses elsewhere.
 */
void got_stored(struct rec_stored *s, bool mappings);

/* Hooks the functions of loaded allocators (hooks_allocators.h), in all modules. */
void got_hook_allocators(void);

/* The number of modules loaded so far. */
uint64_t got_loads(void);

/*
 * `library` was loaded with RTLD_DEEPBIND, after `loads` other modules: hooks it and its
 * dependencies where they are bound to the real functions of this process. False: it uses another
 * allocator than the process.
 */
bool got_hook_deep(void *library, uint64_t loads, bool mappings);

/* Restores the slots, unless another party has changed them since. */
void got_restore(void);
