#ifndef TIDEMARK_CLIENT_SPAWN_H
#define TIDEMARK_CLIENT_SPAWN_H

#include <stdbool.h>

/*
 * A process in which the library was loaded by LD_PRELOAD alone, with no word of a collector, gets
 * one of its own: `tidemark run --adopt`, started as a process that is no child of ours.
 */

/* Whether this is the very program that would be started: a script preloads the library for all. */
bool spawn_is_collector(void);

/* Sets state.socket_path. Returns 0, -1: nothing could be started. */
int spawn_collector(void);

/* Says so on standard error, and what becomes of the process: recorded into a file of its own? */
void spawn_complain(bool recorded);

#endif
