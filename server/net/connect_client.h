#ifndef TIDEMARK_SERVER_NET_CONNECT_CLIENT_H
#define TIDEMARK_SERVER_NET_CONNECT_CLIENT_H

/*
 * From an address to a client that has sent its welcome: waits for a client that is not up yet,
 * tries both address families, and finds the protocol number (docs/decisions/wire-versions.md).
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "protocol/handshake.h"
#include "protocol/wire_version.h"
#include "server/net/stop.h"

struct connect_options {
    const char *address; /* name or number */
    uint16_t port;
    uint32_t protocol; /* 0: find out */
    double timeout;    /* seconds to wait for a client that is not there yet; < 0: no limit */
    bool quiet;        /* no word on stderr while waiting */
};

struct connection {
    int fd; /* connected, non-blocking; the caller's to close */
    const struct wire_version *version;
    struct welcome welcome;
    struct on_demand on_demand; /* when the welcome's flags say so */
};

/* Why there is no connection, for the drop-in names' exit codes. */
enum connect_failure {
    CONNECT_OK,
    CONNECT_NO_CLIENT,     /* nobody answered in time, or the address cannot be resolved */
    CONNECT_MISMATCH,      /* it speaks none of our protocol numbers, or not the one asked for */
    CONNECT_NOT_AVAILABLE, /* it was captured before */
    CONNECT_DROPPED,       /* it hung up during the handshake, or sent nonsense */
    CONNECT_STOPPED,       /* we were asked to stop */
};

/* Fills `c`; otherwise tells why not, with ERR_CONNECT in `e`. */
enum connect_failure connect_client(const struct connect_options *o, struct stop *stop,
                                    struct connection *c, struct err *e);

#endif
