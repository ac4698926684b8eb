#ifndef TIDEMARK_CLI_INTERRUPT_H
#define TIDEMARK_CLI_INTERRUPT_H

/*
 * SIGINT, SIGTERM and SIGHUP kept back, so that a command can remove its temporary file before it
 * ends by them. Only for commands that ask often: not while they wait for a pipe.
 */

#include <signal.h>
#include <stdbool.h>

struct interrupt {
    bool holding;
    sigset_t held, before;
};

void interrupt_hold(struct interrupt *i);

/* True when one of them has come since. */
bool interrupt_came(const struct interrupt *i);

/* Lets them through: one that came ends the process here. */
void interrupt_release(struct interrupt *i);

#endif
