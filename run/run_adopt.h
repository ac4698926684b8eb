#pragma once

/*
 * tidemark run --adopt: the collector of a process that loaded the library by LD_PRELOAD alone. The
 * library has started this process and waits for the name of the socket (client/spawn.h).
 */

#include <sys/types.h>

#include "base/err.h"
#include "run/launch.h"
#include "run/program.h"

/* Finds the process's program. */
int run_adopt_find(struct program *program, pid_t pid, struct err *e);

/* Starts watching the process. */
int run_adopt_begin(struct launch *l, pid_t pid, struct err *e);

/* Writes the name of the socket to standard output, which is then redirected to /dev/null. */
int run_adopt_tell(const char *socket, struct err *e);

/* Reports to the process why it is not recorded; the library prints it. */
void run_adopt_refuse(const struct err *e);

/* The process ended before --adopt-after: prints on standard error how to get a trace of it. */
void run_adopt_brief(pid_t pid, const char *program, double seconds);
