#pragma once

/* One capture: connects to a client, records it, saves the trace and prints its memory summary. */

#include "server/capture/capture_save.h"

/*
 * Initialises all fields but `o`, which the caller fills and releases. `channel` leads to the
 * daemon that watches (server/capture/channel.h); -1: none.
 */
void capture_init(struct capture *c, int channel);

/*
 * Runs the capture and prints its errors. Ignores SIGPIPE and SIGXFSZ from then on. Returns the
 * exit status.
 */
int capture_run(struct capture *c);

/* Reports the end to the daemon, if one watches. */
void capture_release(struct capture *c);
