#ifndef TIDEMARK_CLIENT_MODULES_H
#define TIDEMARK_CLIENT_MODULES_H

/*
 * The modules of the process: programs and libraries, as the dynamic loader lists them.
 *
 * New modules are noticed when a stack leads through one (its rules are unknown), not at dlopen,
 * which needs not be called by its name; lost ones behind dlclose, or at the next look-up of a
 * rule.
 */

#include "client/cfi.h"
#include "client/state.h"

struct module {
    uint64_t bias, low, high; /* of all its segments */
    uint64_t headers;         /* where its program headers are */
    uint32_t number;
    bool seen;
};

/* The unwind table for an address. False: it is in no module, or the module has none. */
bool modules_table(struct thread *t, uint64_t address, struct cfi_table *table);

/*
 * Records what came and went. With `must`, waits for another thread that does it. If modules went
 * away, a new epoch begins. `t` is the calling thread at level 0.
 */
void modules_refresh(struct thread *t, bool must);

/* In a child of fork: the next refresh records all of them. */
void modules_forget(void);

#endif
