#pragma once

/*
 * Holds back SIGINT, SIGTERM and SIGHUP, so that a command can remove its temporary file before it
 * ends by them. Only for commands that check often: not while they wait for a pipe.
 */

#include <signal.h>
#include <stdbool.h>

struct interrupt {
    bool holding;
    sigset_t held, before;
};

void interrupt_hold(struct interrupt *i);

/* Whether one of them has arrived since. */
bool interrupt_came(const struct interrupt *i);

/* Unblocks them: one that arrived ends the process here. */
void interrupt_release(struct interrupt *i);
