#ifndef TIDEMARK_SERVER_NET_GIVEN_SOCKETS_H
#define TIDEMARK_SERVER_NET_GIVEN_SOCKETS_H

/*
 * Sockets that who started us has opened, as sd_listen_fds(3) has it: descriptors from 3 on, as
 * many as $LISTEN_FDS says, when $LISTEN_PID is this process. Clients and readers that came before
 * us wait in them.
 */

#include <stdint.h>

#include "base/err.h"

#define GIVEN_ADDRESS_SIZE 64u

struct given_sockets {
    int http;                              /* a listening TCP socket; -1: none */
    int announcements;                     /* a bound UDP socket of IPv4; -1: none */
    uint16_t port;                         /* that it is bound to */
    char http_address[GIVEN_ADDRESS_SIZE]; /* "127.0.0.1:8088", "[::1]:8088" */
};

#define GIVEN_SOCKETS_NONE ((struct given_sockets){.http = -1, .announcements = -1})

/*
 * Takes them, to be closed by the caller; they are not blocking and not inherited, and $LISTEN_FDS
 * and its kin are gone from the environment. 0 also when there are none; ERR_USAGE for a socket
 * that is neither, or for two of a kind: nothing is taken then.
 */
int given_sockets_take(struct given_sockets *g, struct err *e);
void given_sockets_close(struct given_sockets *g);

#endif
