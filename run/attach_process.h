#ifndef TIDEMARK_RUN_ATTACH_PROCESS_H
#define TIDEMARK_RUN_ATTACH_PROCESS_H

/*
 * The preload library in a process that runs already: loaded by the process's own dynamic linker,
 * in a call that one of its threads makes for us (run/remote.h), and asked to leave again. What
 * has no dynamic linker of the GNU C library, or might be killed for what we do, is refused.
 */

#include <sys/types.h>

#include "base/err.h"

/* Whether `library` can be loaded into the process at all. ERR_OUTPUT with the reason. */
int attach_check(pid_t pid, const char *library, struct err *e);

/*
 * Loads it, and has it meet the collector that listens at `socket`. Allocations are on hold then
 * (REC_CONTROL_HOLD) until the collector says otherwise. `left`: why pointers to functions that the
 * process stored itself (server/stored_pointers.h) are not all changed, if so.
 */
int attach_begin(pid_t pid, const char *library, const char *socket, struct err *left,
                 struct err *e);

/*
 * Puts everything back. The process goes on without the library: a stored pointer that still leads
 * to a hook gets the real function from it.
 */
int attach_end(pid_t pid, struct err *e);

#endif
