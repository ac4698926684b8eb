#ifndef TIDEMARK_SERVER_PRIVILEGES_H
#define TIDEMARK_SERVER_PRIVILEGES_H

/* Capabilities of this process (capabilities(7)). A user id of 0 without them is a user as others.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define PRIVILEGE(N) (UINT64_C(1) << (N)) /* a number of linux/capability.h */

/* Whether it has any, also those that are not in effect. */
bool privileges_held(void);

/*
 * Gives up all but those in `kept`, for good: also for programs that it executes, setuid ones
 * included. Of `kept` it has then what it had before. ERR_USAGE when the kernel refuses.
 */
int privileges_keep(uint64_t kept, struct err *e);

#endif
