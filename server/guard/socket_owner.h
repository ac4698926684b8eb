#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/*
 * Sets *owner to the process that has the other end of the connected TCP socket `fd`, found through
 * /proc; 0 when it is not on this host, or not visible. The process `likely` is looked at first, 0:
 * none. ERR_MEMORY.
 */
int socket_owner(int fd, uint64_t likely, pid_t *owner, struct err *e);
