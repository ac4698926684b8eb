#pragma once

/*
 * Sockets passed by the service manager, as sd_listen_fds(3) defines them: descriptors from 3 on,
 * $LISTEN_FDS in number, if $LISTEN_PID is this process. Connections and datagrams that came before
 * the start wait in them.
 */

#include <stdint.h>

#include "base/err.h"

#define GIVEN_ADDRESS_SIZE 64u

struct given_sockets {
    int http;                              /* a listening TCP socket; -1: none */
    int announcements;                     /* a bound UDP socket of IPv4; -1: none */
    uint16_t port;                         /* its port */
    char http_address[GIVEN_ADDRESS_SIZE]; /* "127.0.0.1:8088", "[::1]:8088" */
};

#define GIVEN_SOCKETS_NONE ((struct given_sockets){.http = -1, .announcements = -1})

/*
 * Takes over the sockets, which the caller closes. They become non-blocking and close-on-exec, and
 * $LISTEN_FDS and its related variables are removed from the environment. 0 also when there are
 * none; ERR_USAGE for a socket of another kind or two of one kind, and nothing is taken then.
 */
int given_sockets_take(struct given_sockets *g, struct err *e);
void given_sockets_close(struct given_sockets *g);
