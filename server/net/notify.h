#pragma once

/*
 * Sends a state to the service manager as sd_notify(3) does: "READY=1", "STOPPING=1". No effect if
 * $NOTIFY_SOCKET is not set or its socket does not accept messages.
 */
void notify_service(const char *state);
