#ifndef TIDEMARK_SERVER_CAPTURE_CAPTURE_RUN_H
#define TIDEMARK_SERVER_CAPTURE_CAPTURE_RUN_H

/* One capture: connects to a client, records it, saves the trace and prints its memory summary. */

#include "server/capture/capture_save.h"

/*
 * All fields but `o`, which the caller fills and releases. `channel`: of the daemon that watches
 * (server/capture/channel.h), -1: none.
 */
void capture_init(struct capture *c, int channel);

/* Prints its errors, ignores SIGPIPE and SIGXFSZ from now on. Returns the exit status. */
int capture_run(struct capture *c);

/* Reports the end to the daemon, if one watches. */
void capture_release(struct capture *c);

#endif
