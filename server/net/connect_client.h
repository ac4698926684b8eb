#pragma once

/*
 * Connects to a client and receives its welcome: waits for a client that is not up yet, tries both
 * address families, and finds the protocol number (docs/decisions/wire-versions.md).
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
    uint32_t protocol; /* 0: try all */
    double timeout;    /* seconds to wait for a client to appear; < 0: no limit */
    bool quiet;        /* print nothing on stderr while waiting */
};

struct connection {
    int fd; /* connected, non-blocking; the caller closes it */
    const struct wire_version *version;
    struct welcome welcome;
    struct on_demand on_demand; /* valid if the welcome's flags say on-demand */
};

/* Why there is no connection, for the exit codes of the drop-in names. */
enum connect_failure {
    CONNECT_OK,
    CONNECT_NO_CLIENT,     /* no answer in time, or the address cannot be resolved */
    CONNECT_MISMATCH,      /* it supports none of our protocol numbers, or not the requested one */
    CONNECT_NOT_AVAILABLE, /* it was captured before */
    CONNECT_DROPPED, /* it closed the connection during the handshake, or sent invalid bytes */
    CONNECT_STOPPED, /* a stop was requested */
};

/* Fills `c`; otherwise returns the reason, with ERR_CONNECT in `e`. */
enum connect_failure connect_client(const struct connect_options *o, struct stop *stop,
                                    struct connection *c, struct err *e);
