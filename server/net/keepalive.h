#ifndef TIDEMARK_SERVER_NET_KEEPALIVE_H
#define TIDEMARK_SERVER_NET_KEEPALIVE_H

/*
 * Whether the other end of a TCP connection is still there. A host that loses power, or a link that
 * is cut, says nothing: without questions the connection would stay for ever. The other end's
 * kernel answers them, so a program that is stopped, in a debugger or for want of processors, is
 * there.
 */

#include <stdbool.h>

#define KEEPALIVE_IDLE 30     /* seconds of silence before the first question */
#define KEEPALIVE_INTERVAL 10 /* seconds between them */
#define KEEPALIVE_PROBES 6    /* without an answer to any the connection is broken */
#define KEEPALIVE_SECONDS (KEEPALIVE_IDLE + KEEPALIVE_INTERVAL * KEEPALIVE_PROBES)

/* From now on reading fails with ETIMEDOUT when it is gone. No TCP socket: nothing happens. */
void keepalive_begin(int fd);

/*
 * Whether something that we sent was not acknowledged for KEEPALIVE_SECONDS, with nothing else
 * heard meanwhile: as long as something is on its way the kernel asks nothing, and itself gives up
 * after a quarter of an hour only. TCP_USER_TIMEOUT would also end a connection to a program that
 * is stopped and whose receive buffer is full.
 */
bool keepalive_is_lost(int fd);

#endif
