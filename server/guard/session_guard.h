#pragma once

/* Restricts the processes that record the daemon's clients (server/guard/guard.h). */

#include <stdbool.h>

/* Call it before anything is read from a client. */
void session_guard_begin(void);

/*
 * Call it once the client is connected over `fd`: forbids further sockets. For a remote client it
 * also restricts files to these folders, and returns true. For a client on this host, the module
 * table has to be read first, since Landlock forbids access to other processes.
 */
bool session_guard_connected(int fd, const char *output, const char *spool);

/*
 * Call it after that: restricts files for a client on this host, too. `root`: of another mount
 * namespace, or -1.
 */
void session_guard_looked(const char *output, const char *spool, int root);
