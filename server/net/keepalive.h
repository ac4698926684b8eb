#pragma once

/*
 * Detects whether the peer of a TCP connection is still there. A host that loses power, or a cut
 * link, sends nothing, so without keepalive probes the connection would stay open for ever. The
 * peer's kernel answers probes, so a program that is stopped in a debugger or starved of CPU time
 * counts as present.
 */

#include <stdbool.h>

#define KEEPALIVE_IDLE 30     /* seconds of silence before the first probe */
#define KEEPALIVE_INTERVAL 10 /* seconds between them */
#define KEEPALIVE_PROBES 6    /* unanswered probes that break the connection */
#define KEEPALIVE_SECONDS (KEEPALIVE_IDLE + KEEPALIVE_INTERVAL * KEEPALIVE_PROBES)

/* From now on reading fails with ETIMEDOUT when the peer is gone. No effect on other sockets. */
void keepalive_begin(int fd);

/*
 * Whether sent data has been unacknowledged for KEEPALIVE_SECONDS with nothing received meanwhile:
 * while data is in flight the kernel sends no keepalive probes, and gives up only after a quarter
 * of an hour. TCP_USER_TIMEOUT would also break the connection to a stopped program whose receive
 * buffer is full.
 */
bool keepalive_is_lost(int fd);
