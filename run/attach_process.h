#pragma once

/*
 * Loads the preload library into a running process: the process's dynamic linker loads it, in a
 * call that one of its threads makes (run/remote.h). Also detaches it again. Refuses processes
 * without the GNU C library's dynamic linker, and those that might be killed for it.
 */

#include <sys/types.h>

#include "base/err.h"

/* Whether `library` can be loaded into the process. ERR_OUTPUT with the reason. */
int attach_check(pid_t pid, const char *library, struct err *e);

/*
 * Loads the library and connects it to the collector at `socket`. Allocations are on hold
 * (REC_CONTROL_HOLD) until the collector changes that. `left`: why some stored function pointers
 * (run/stored_pointers.h) could not be changed.
 */
int attach_begin(pid_t pid, const char *library, const char *socket, struct err *left,
                 struct err *e);

/*
 * Restores everything. The process goes on without the library: a stored pointer that still leads
 * to a hook is forwarded to the real function.
 */
int attach_end(pid_t pid, struct err *e);
