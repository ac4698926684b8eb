#ifndef TIDEMARK_SERVER_NET_DISCOVERY_H
#define TIDEMARK_SERVER_NET_DISCOVERY_H

/*
 * Hearing the clients that announce themselves: a UDP datagram every three seconds while a client
 * waits for a server. Source: public/client/TracyProfiler.cpp, server/TracyBroadcast.cpp @ v0.14.0.
 */

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "protocol/handshake.h"

struct announcement {
    struct broadcast broadcast;
    char address[INET6_ADDRSTRLEN]; /* where it came from */
};

/*
 * A non-blocking socket that hears announcements on `port`. Clients send them to 255.255.255.255
 * even when they serve this host alone, so it must hear all hosts. -1 with ERR_CONNECT.
 */
int discovery_open(uint16_t port, struct err *e);

/*
 * The next announcement at hand. False when there is none; what is none is passed over, and with
 * `local_only` what comes from another host. Also false after many that were passed over: then more
 * may be at hand.
 */
bool discovery_next(int fd, bool local_only, struct announcement *a);

/* Whether an IPv4 address is one of this host's own. */
bool address_is_own(const struct sockaddr_in *address);

#endif
