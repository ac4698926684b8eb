#ifndef TIDEMARK_RUN_PORT_CLAIM_H
#define TIDEMARK_RUN_PORT_CLAIM_H

/*
 * The way in which a program gets the TCP port that a listener of ours holds. Next to each listener
 * stands an abstract Unix socket that is named after the port (REC_PORT_NAME of
 * client/recording_format.h). When bind(2) fails in a program, the preload library connects there
 * and waits for the end of the connection; the listener closes its sockets, then that connection,
 * and the library binds again. Abstract names belong to a network namespace, as ports do.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The socket on which claims of `port` arrive; -1 when there is none to be had. */
int port_claim_open(uint16_t port);

/*
 * The next claim that waits: the connection to close once the port is free, and in *pid its
 * process. -1 when there is none. Claims of other users are dropped, except those of root and of
 * process `known`, the recorded program, which may have become another user's.
 */
int port_claim_take(int claims, pid_t known, pid_t *pid);

#endif
