#pragma once

/*
 * Hands a TCP port over to a program that binds it. Each listener has an abstract Unix socket,
 * named after the port (REC_PORT_NAME of client/recording_format.h). When bind(2) fails in a
 * program, the preload library connects there and waits until the connection is closed; the
 * listener closes its sockets, then that connection, and the library retries bind. Abstract names
 * belong to a network namespace, as ports do.
 */

#include <stdint.h>
#include <sys/types.h>

/* Opens the socket for claims of `port`; -1 when that fails. */
int port_claim_open(uint16_t port);

/*
 * Accepts the next pending claim: returns the connection to close once the port is free, and in
 * *pid its process. -1 when there is none. Claims of other users are dropped, except those of root
 * and of process `known`, the recorded program, which may have changed its user.
 */
int port_claim_take(int claims, pid_t known, pid_t *pid);
