#ifndef TIDEMARK_SERVER_GUARD_SESSION_GUARD_H
#define TIDEMARK_SERVER_GUARD_SESSION_GUARD_H

/* What the processes that record the daemon's clients may do (server/guard/guard.h). */

#include <stdbool.h>

/* Before anything is read from a client. */
void session_guard_begin(void);

/*
 * The client is connected over `fd`: no further sockets. Of a client on another host files are made
 * in these folders only, and true is returned. Of one on this host the module table is read first,
 * which Landlock would forbid: it keeps processes from looking into others.
 */
bool session_guard_connected(int fd, const char *output, const char *spool);

/* It was read: from here on the same for a client on this host. `root`: of other mounts, or -1. */
void session_guard_looked(const char *output, const char *spool, int root);

#endif
