#pragma once

/*
 * Plays a recorded client to each server that connects. The recording holds all bytes that the
 * client sent, answers included, so queries are read and dropped; only the handshake and the end
 * are handled. Any recording can be played, a broken one too.
 *
 * If the recorded client ended in order, the replay waits for the server to close the connection,
 * as a client does. If the recording breaks off, the replay shuts down its sending side.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "server/net/stop.h"

struct replay_options {
    const char *recording; /* the client's bytes, from the status byte on; "-" = stdin */
    uint32_t protocol;     /* 0: read from NAME.s2c.bin beside NAME.c2s.bin */
    const char *address;   /* to listen on: name or number */
    uint16_t port;         /* 0: any free one */
    uint64_t connections;  /* end after so many servers; 0: run until stopped */
    uint64_t rate;         /* bytes per second; 0: as fast as the server takes them */
    bool hold;             /* keep the connection open after the end of any recording */
    const char *announce;  /* loopback address[:port] to send UDP announcements to, or NULL */
};

/* Totals of all connections. */
struct replay_stats {
    uint64_t connections; /* with the right protocol number */
    uint64_t mismatches;  /* rejected with status 2; not counted in replay_options.connections */
    uint64_t bytes;
    uint64_t queries; /* packets read and dropped, Terminate included */
};

struct replay; /* opaque */

/*
 * Opens the recording and listens. NULL with ERR_USAGE, ERR_INPUT (recording) or ERR_CONNECT
 * (address, port).
 */
struct replay *replay_new(const struct replay_options *options, struct err *e);
void replay_free(struct replay *r);

/* The address that it listens on, such as "127.0.0.1:8086" or "[::1]:8086". */
const char *replay_address(const struct replay *r);

/*
 * Serves until `connections` servers have received the recording or a stop is requested (true in
 * *stopped). A server that disconnects early counts. -1 when the recording cannot be read or
 * sockets fail.
 */
int replay_run(struct replay *r, struct stop *stop, bool *stopped, struct err *e);

const struct replay_stats *replay_stats(const struct replay *r);
