#ifndef TIDEMARK_RUN_STORED_POINTERS_H
#define TIDEMARK_RUN_STORED_POINTERS_H

/*
 * Pointers to functions that a process has stored itself: in variables, on stacks, in blocks of the
 * heap. No relocation names these places, so the process's memory is searched for the addresses.
 *
 * The search runs beside the process and yields candidates. Then all threads are stopped for the
 * moment in which each candidate is read again and, if it still holds the address, changed. A copy
 * that was made meanwhile is found by the next search; searches are repeated until one finds
 * nothing. Only aligned words of private writable memory are changed, and pages that were never
 * touched are not read.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "client/recording_format.h"

/*
 * Changes the real addresses of `s` to those of the hooks; `back`: the other way round. *changed:
 * how many words, also when ERR_OUTPUT says that the rest could not be.
 */
int stored_pointers_change(pid_t pid, const struct rec_stored *s, bool back, uint64_t *changed,
                           struct err *e);

#endif
