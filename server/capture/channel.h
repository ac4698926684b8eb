#pragma once

/*
 * Messages between the daemon and its sessions, over a socket pair. Neither side trusts the other's
 * lengths: a session reads unauthenticated input, and an attack that controls a session must get
 * no further.
 *
 *     message  u32 length of the text, u32 type, u64 reference, the text; little-endian
 *
 * Only channel_flush blocks. Messages that cannot be sent at once are queued, up to
 * CHANNEL_WAITING_MAX bytes.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define CHANNEL_TEXT_MAX ((size_t)4 << 20)    /* bytes of a message's text */
#define CHANNEL_WAITING_MAX ((size_t)8 << 20) /* bytes queued to be sent */

struct channel {
    int fd; /* -1: closed, or broken */
    struct buf in, out;
    size_t taken; /* bytes of `in` that channel_next has returned */
    size_t sent;  /* bytes of `out` already sent */
};

struct channel_message {
    uint32_t type;
    uint64_t reference; /* an answer carries that of its question */
    const char *text;   /* not terminated; valid until the channel is used again */
    size_t len;
};

/* Makes a pair of connected, close-on-exec ends. ERR_CONNECT. */
int channel_pair(struct channel *a, struct channel *b, struct err *e);

/*
 * Closes the channel. Harmless for a closed one, and for one that is all zero but for its fd of -1.
 */
void channel_release(struct channel *c);

/*
 * Sends or queues a message. -1 if the text is too long, the queue is full or memory is short; then
 * nothing of the message is sent.
 */
int channel_send(struct channel *c, uint32_t type, uint64_t reference, const void *text,
                 size_t len);

/* Whether messages are queued, so that the caller should poll for POLLOUT. */
bool channel_wants_out(const struct channel *c);

/* Sends queued messages, for at most `timeout_ms`. */
void channel_flush(struct channel *c, int timeout_ms);

/*
 * Sends queued messages and receives available ones. -1 if the peer is gone or sent an invalid
 * message; the channel is closed then, but messages received before can still be taken.
 */
int channel_pump(struct channel *c);

/* Takes the next whole message. False if there is none. */
bool channel_next(struct channel *c, struct channel_message *m);
