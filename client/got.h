#ifndef TIDEMARK_CLIENT_GOT_H
#define TIDEMARK_CLIENT_GOT_H

/*
 * Hooks where nothing can be put before the real functions: in a process that runs already
 * (tidemark run --pid), in libraries that dlopen binds to what they need themselves
 * (RTLD_DEEPBIND), and for functions that only some allocators have, which a program may take for a
 * sign of theirs if this library exported them. So the places where modules keep such addresses are
 * changed. A place is changed only if it holds the function's address now, or its module's own
 * stub, which looks it up at the first call.
 */

#include <stdbool.h>
#include <stdint.h>

#include "client/recording_format.h"

/* Changes the places of all modules that are there. */
void got_hook(bool mappings);

/* The same for the modules that were loaded after `loads` others. */
void got_hook_since(uint64_t loads, bool mappings);

/*
 * The functions of got_hook, and memory of this library that holds their real addresses: for the
 * collector, which looks for copies of these elsewhere.
 */
void got_stored(struct rec_stored *s, bool mappings);

/* Functions of allocators that are there (hooks_allocators.h), in all modules. */
void got_hook_allocators(void);

/* How many modules have been loaded so far. */
uint64_t got_loads(void);

/*
 * `library` was loaded with RTLD_DEEPBIND, after `loads` others: changes it and what came with it,
 * as far as the functions that they found are the real ones of this process. False: it has another
 * allocator than the process.
 */
bool got_hook_deep(void *library, uint64_t loads, bool mappings);

/* Puts back what was there, unless somebody else changed it since. */
void got_restore(void);

#endif
