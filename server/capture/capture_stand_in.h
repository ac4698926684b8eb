#pragma once

/*
 * A capture that connected to `tidemark run` because it came before the program's own Tracy client.
 * When the client binds the port, run leaves it (run/port_claim.h) and ends the session. The
 * capture then reconnects to the client. What it has recorded until then is in run's trace.
 */

#include "server/capture/capture_save.h"
#include "server/net/connect_client.h"

/*
 * After a session over `was` that ended with `end`: whether run served that port and the same
 * program listens there now. If so, *own is a connection to it, owned by the caller.
 */
bool capture_stand_in_left(struct capture *c, const struct connection *was, enum session_end end,
                           struct connection *own);
