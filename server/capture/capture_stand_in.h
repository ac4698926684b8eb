#ifndef TIDEMARK_SERVER_CAPTURE_CAPTURE_STAND_IN_H
#define TIDEMARK_SERVER_CAPTURE_CAPTURE_STAND_IN_H

/*
 * A capture that found `tidemark run` at the port, because it came before the program's own Tracy
 * client did: when the client binds the port, run leaves it (run/port_claim.h) and ends the
 * session. The capture then is to be of the client. What it has so far is in run's trace.
 */

#include "server/capture/capture_save.h"
#include "server/net/connect_client.h"

/*
 * After the session over `was` ended so: whether run had that port and the same program listens
 * there now. Then *own is a connection with it, the caller's.
 */
bool capture_stand_in_left(struct capture *c, const struct connection *was, enum session_end end,
                           struct connection *own);

#endif
