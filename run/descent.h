#ifndef TIDEMARK_RUN_DESCENT_H
#define TIDEMARK_RUN_DESCENT_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Whether a process is `ancestor`, or one that it started, or one that such a one started, as far
 * as it shows: a process whose parent has ended belongs to nobody but the first of the system.
 */
bool descends_from(pid_t pid, pid_t ancestor);

#endif
