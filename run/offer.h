#pragma once

/*
 * The client's side of a connection: listens and announces itself as a profiled program does, and
 * sends each server that connects a stream of frames, from its beginning, with the answers to its
 * queries between them. The frames are kept in a file. A server may reconnect, and another may
 * follow.
 *
 * No call blocks: the owner polls the descriptors of offer_poll and calls offer_step. A faulty
 * server can end only its own session.
 */

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/view.h"
#include "protocol/encoder.h"
#include "protocol/handshake.h"
#include "protocol/wire_version.h"

#define OFFER_PORTS 20u /* from BROADCAST_PORT on, as clients search a free one */
#define OFFER_POLLS 4u

struct offer_options {
    const struct wire_version *version;
    const char *address; /* to listen on; NULL: the loopback, both families */
    uint16_t port;       /* 0: the first free one of OFFER_PORTS … */
    bool any_port;       /* … or any free one */
    bool may_move;       /* use another port when those are taken */
    uint16_t announce;   /* UDP port; 0: no announcements */
    const char *spool;   /* folder for the file, which has no name */
    void *ctx;
    /*
     * A server has connected; fills in the welcome. False: no stream is available (yet, or any
     * more).
     */
    bool (*welcome)(void *ctx, struct welcome *w);
    /* A server's query: to be answered now or later, through offer_replies. */
    int (*asked)(void *ctx, enum query_kind kind, uint64_t key, uint32_t extra, struct err *e);
    /*
     * Process `pid` binds `port`, where the offer listened. The offer now listens at offer_address,
     * or, with an error, nowhere. May be NULL.
     */
    void (*moved)(void *ctx, uint16_t port, pid_t pid, const struct err *e);
};

struct offer; /* opaque */

/* Takes the stream, but does not listen yet. NULL with an error. */
struct offer *offer_new(const struct offer_options *options, struct err *e);
void offer_free(struct offer *o);

/*
 * Starts listening. ERR_CONNECT when the address or port is not available. When a program with the
 * preload library binds the same port, the offer gives it up: its session ends, and it listens at
 * another port (run/port_claim.h).
 */
int offer_listen(struct offer *o, struct err *e);

/* Accepts no more servers; a connected one stays. */
void offer_stop_listening(struct offer *o);

/* The address it listens at, such as "127.0.0.1:8086"; NULL when it does not listen. */
const char *offer_address(const struct offer *o);

/* Sets the name and pid in announcements. */
void offer_set_program(struct offer *o, const char *name, uint64_t pid);

/* Adds to the stream: whole frames, each with its length before it. */
int offer_append(struct offer *o, const uint8_t *bytes, size_t n, struct err *e);

/* Ends the stream. A server may still send queries, which are answered. */
void offer_end(struct offer *o);

/* Begins another stream in place of this one: a connected server gets no more of the old one. */
void offer_begin_anew(struct offer *o);

/*
 * Whether a server has connected; whether it has completed the handshake; whether one has received
 * the whole stream and sent Terminate.
 */
bool offer_is_connected(const struct offer *o);
bool offer_is_serving(const struct offer *o);
bool offer_is_done(const struct offer *o);

/* For answers to the server that completed the handshake. */
struct encoder *offer_replies(struct offer *o);

/* Fills in the descriptors to poll; returns how many. */
size_t offer_poll(const struct offer *o, struct pollfd fds[OFFER_POLLS]);

/*
 * Receives, answers and sends as far as possible without blocking. -1 when the file cannot be read
 * or memory is short: the offer is unusable then.
 */
int offer_step(struct offer *o, struct err *e);

/* Announces the end of the client. */
void offer_say_goodbye(struct offer *o);
