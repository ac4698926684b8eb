#ifndef TIDEMARK_RUN_OFFER_H
#define TIDEMARK_RUN_OFFER_H

/*
 * The client's side of a connection: listens and announces itself as a profiled program does, and
 * sends whichever server connects a stream of frames that is kept in a file, from its beginning,
 * with the answers to its queries between. A server that left may come again, or another one.
 *
 * Nothing here waits: the owner polls what offer_poll says and calls offer_step. What a server does
 * ends at most its own session.
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

#define OFFER_PORTS 20u /* from BROADCAST_PORT on, as clients look for one that is free */
#define OFFER_POLLS 4u

struct offer_options {
    const struct wire_version *version;
    const char *address; /* to listen on; NULL: the loopback's, of both families */
    uint16_t port;       /* 0: the first of OFFER_PORTS that is free … */
    bool any_port;       /* … or any that is free */
    bool may_move;       /* another port will do when those are taken */
    uint16_t announce;   /* UDP port; 0: it does not announce itself */
    const char *spool;   /* folder for the file; it has no name there */
    void *ctx;
    /* A server has connected. False: there is nothing to be had yet, or any more. */
    bool (*welcome)(void *ctx, struct welcome *w);
    /* It asks something: to be answered now or later, by offer_replies. */
    int (*asked)(void *ctx, enum query_kind kind, uint64_t key, uint32_t extra, struct err *e);
    /*
     * Process `pid` binds `port`, where the offer listened: it listens at offer_address now, or
     * with an error nowhere. May be NULL.
     */
    void (*moved)(void *ctx, uint16_t port, pid_t pid, const struct err *e);
};

struct offer; /* opaque */

/* Takes the stream, but does not listen yet. NULL with an error. */
struct offer *offer_new(const struct offer_options *options, struct err *e);
void offer_free(struct offer *o);

/*
 * From now on servers may connect. ERR_CONNECT when there is no such address or port. When a
 * program with the preload library binds the same port, it gets it: a session ends, and the offer
 * listens at another one (run/port_claim.h).
 */
int offer_listen(struct offer *o, struct err *e);

/* No server comes any more; one that is connected stays. */
void offer_stop_listening(struct offer *o);

/* "127.0.0.1:8086": where it listens; NULL when it does not. */
const char *offer_address(const struct offer *o);

/* Who it is in announcements. */
void offer_set_program(struct offer *o, const char *name, uint64_t pid);

/* More of the stream: whole frames, each with its length before it. */
int offer_append(struct offer *o, const uint8_t *bytes, size_t n, struct err *e);

/* All is said, the goodbye included. A server may still ask, and be answered. */
void offer_end(struct offer *o);

/* Another stream begins, in the place of this one: a server that is there gets no more of it. */
void offer_begin_anew(struct offer *o);

/*
 * Whether somebody has connected; whether that is a server which was welcomed; whether one had the
 * stream to its end and let go.
 */
bool offer_is_connected(const struct offer *o);
bool offer_is_serving(const struct offer *o);
bool offer_is_done(const struct offer *o);

/* For answers to the server that was welcomed. */
struct encoder *offer_replies(struct offer *o);

/* Fills in what to wait for; returns how many. */
size_t offer_poll(const struct offer *o, struct pollfd fds[OFFER_POLLS]);

/*
 * Takes, answers and sends what can be without waiting. -1 when the file cannot be read or memory
 * is short: it is of no use any more.
 */
int offer_step(struct offer *o, struct err *e);

/* Says that nobody is here any more. */
void offer_say_goodbye(struct offer *o);

#endif
