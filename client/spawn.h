#pragma once

#include <stdbool.h>

/*
 * Starts a collector for a process in which the library was loaded by LD_PRELOAD alone: `tidemark
 * run --adopt`, as a process that is not a child of this one.
 */

/*
 * Whether this process is the program that would be started: a script may preload the library for
 * all programs.
 */
bool spawn_is_collector(void);

/* Sets state.socket_path. Returns 0, or -1: no collector could be started. */
int spawn_collector(void);

/* Prints that on standard error, and whether the process records into a file instead. */
void spawn_complain(bool recorded);
