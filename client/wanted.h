#pragma once

/*
 * Selects the threads whose allocations are recorded (--threads): a comma-separated list of "main",
 * of thread ids, and of names with the wildcards * and ?; a leading ! excludes. Frees are recorded
 * from all threads, since they are of recorded blocks.
 */

#include "client/state.h"

/* Sets the list; an empty one selects all. */
void wanted_begin(const char *list);

/*
 * Whether the calling thread is selected. Its present name counts, which is read from time to time.
 * Preserves errno.
 */
bool wanted_thread(void);
