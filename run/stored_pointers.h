#pragma once

/*
 * Changes function pointers that a process has stored itself: in variables, on stacks, in heap
 * blocks. No relocation describes these places, so the process's memory is searched for the
 * addresses.
 *
 * The search runs while the process runs and yields candidates. Then all threads are stopped
 * briefly, and each candidate that still holds the address is changed. A copy made meanwhile is
 * found by the next search; searches are repeated until one finds nothing. Only aligned words of
 * private writable memory are changed, and untouched pages are not read.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "client/recording_format.h"

/*
 * Replaces the real addresses in `s` with those of the hooks; `back`: the other way round.
 * *changed: the number of words, also when ERR_OUTPUT reports that some could not be changed.
 */
int stored_pointers_change(pid_t pid, const struct rec_stored *s, bool back, uint64_t *changed,
                           struct err *e);
