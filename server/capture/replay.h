#ifndef TIDEMARK_SERVER_CAPTURE_REPLAY_H
#define TIDEMARK_SERVER_CAPTURE_REPLAY_H

/*
 * A recorded client, played to whichever server connects. The recording holds every byte that the
 * client sent, answers included, so queries are read and dropped; only the handshake and the end
 * are acted on. Any recording can be played, a broken one too.
 *
 * A client that says that it ends waits for the server to let go, and so does the replay of one. A
 * recording that just breaks off ends as the client's connection did: nothing more comes.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "server/net/stop.h"

struct replay_options {
    const char *recording; /* bytes as sent by the client, from the status byte on; "-" = stdin */
    uint32_t protocol;     /* 0: as in the request of the NAME.s2c.bin beside NAME.c2s.bin */
    const char *address;   /* to listen on: name or number */
    uint16_t port;         /* 0: any free one */
    uint64_t connections;  /* servers to play to before the end; 0: until stopped */
    uint64_t rate;         /* bytes per second; 0: as fast as the server takes them */
    bool hold;             /* keep the connection open behind the end of any recording */
    const char *announce;  /* loopback address[:port] that gets UDP announcements, or NULL */
};

/* What was played over all connections. */
struct replay_stats {
    uint64_t connections; /* with the right protocol number */
    uint64_t mismatches;  /* sent away with status 2; they do not use the recording up */
    uint64_t bytes;
    uint64_t queries; /* drained, Terminate included */
};

struct replay; /* opaque */

/*
 * Opens the recording and listens. NULL with ERR_USAGE, ERR_INPUT (recording) or ERR_CONNECT
 * (address, port).
 */
struct replay *replay_new(const struct replay_options *options, struct err *e);
void replay_free(struct replay *r);

/* "127.0.0.1:8086" or "[::1]:8086": where it listens. */
const char *replay_address(const struct replay *r);

/*
 * Serves until so many servers have had the recording or a stop is asked for (true in *stopped).
 * A server that goes away early has had it. -1 when the recording cannot be read or sockets fail.
 */
int replay_run(struct replay *r, struct stop *stop, bool *stopped, struct err *e);

const struct replay_stats *replay_stats(const struct replay *r);

#endif
