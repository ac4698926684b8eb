#pragma once

/* The command line of `tidemark daemon` and of the drop-in for tracy-capture-daemon. */

#include "server/daemon/daemon.h"

/* Returns -1 to go on, else the exit status. */
int daemon_parse(struct daemon *d, int argc, char **argv);

/* Adds an option for each capture. The last one of a kind counts, as everywhere. */
void daemon_hand_on(struct daemon *d, const char *option, const char *value);
