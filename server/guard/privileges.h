#pragma once

/* Capabilities of this process (capabilities(7)). Without them, user id 0 is an ordinary user. */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define PRIVILEGE(N) (UINT64_C(1) << (N)) /* a number from linux/capability.h */

/* Whether it has any, including those not in effect. */
bool privileges_held(void);

/*
 * Permanently gives up all but those in `kept`, also for programs that it executes, setuid ones
 * included. Of `kept` it then has those that it had before. ERR_USAGE when the kernel refuses.
 */
int privileges_keep(uint64_t kept, struct err *e);
