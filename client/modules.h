#pragma once

/*
 * The modules of the process: programs and libraries, as the dynamic linker lists them.
 *
 * A new module is noticed when a stack leads through it (its unwind rules are unknown), not at
 * dlopen, which may be called past its hook. Unloaded ones are noticed after dlclose, or at the
 * next look-up of a rule.
 */

#include "client/cfi.h"
#include "client/state.h"

struct module {
    uint64_t bias, low, high; /* of all its segments */
    uint64_t headers;         /* address of its program headers */
    uint32_t number;
    bool seen;
};

/* Finds the unwind table for an address. False: it is in no module, or the module has none. */
bool modules_table(struct thread *t, uint64_t address, struct cfi_table *table);

/*
 * Records loaded and unloaded modules. With `must` it waits for another thread that does it. If
 * modules were unloaded, a new epoch begins. `t` is the calling thread at level 0.
 */
void modules_refresh(struct thread *t, bool must);

/* In a child of fork: the next refresh records all modules. */
void modules_forget(void);
