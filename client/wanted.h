#ifndef TIDEMARK_CLIENT_WANTED_H
#define TIDEMARK_CLIENT_WANTED_H

/*
 * Which threads' allocations are recorded (--threads): a list with commas of "main", of thread ids,
 * and of names with * and ? in them; with ! before it an item excludes. Frees are recorded of
 * whatever thread, since they are of blocks that are in the recording.
 */

#include "client/state.h"

/* Takes note of a list; an empty one wants all. */
void wanted_begin(const char *list);

/* What the calling thread is called counts, which is looked at now and then. Keeps errno. */
bool wanted_thread(void);

#endif
