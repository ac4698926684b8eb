#pragma once

/*
 * Receives announcements: a client sends a UDP datagram every three seconds while it waits for a
 * server. Source: public/client/TracyProfiler.cpp, server/TracyBroadcast.cpp @ v0.14.0.
 */

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "protocol/handshake.h"

struct announcement {
    struct broadcast broadcast;
    char address[INET6_ADDRSTRLEN]; /* its source */
};

/*
 * Opens a non-blocking socket that receives announcements on `port`. Clients send them to
 * 255.255.255.255 even when they serve this host alone, so it must accept those of all hosts. -1
 * with ERR_CONNECT.
 */
int discovery_open(uint16_t port, struct err *e);

/*
 * Returns the next pending announcement. Skips invalid datagrams and, with `local_only`, those from
 * other hosts. False when there is none, and also after many skipped datagrams: more may be pending
 * then.
 */
bool discovery_next(int fd, bool local_only, struct announcement *a);

/* Whether an IPv4 address is one of this host's own. */
bool address_is_own(const struct sockaddr_in *address);
