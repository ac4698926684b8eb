#ifndef TIDEMARK_SERVER_CAPTURE_CHANNEL_H
#define TIDEMARK_SERVER_CAPTURE_CHANNEL_H

/*
 * Messages between the daemon and its sessions, over a socket pair. Neither side trusts the other's
 * lengths: a session reads what strangers send, and whoever broke it must get no further.
 *
 *     message  u32 length of the text, u32 type, u64 reference, the text; little-endian
 *
 * Nothing here waits but channel_flush: what cannot be sent at once is kept, up to
 * CHANNEL_WAITING_MAX bytes.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define CHANNEL_TEXT_MAX ((size_t)4 << 20)    /* bytes of a message's text */
#define CHANNEL_WAITING_MAX ((size_t)8 << 20) /* not sent yet */

struct channel {
    int fd; /* -1: closed, or broken */
    struct buf in, out;
    size_t taken; /* of `in`, by channel_next */
    size_t sent;  /* of `out` */
};

struct channel_message {
    uint32_t type;
    uint64_t reference; /* an answer has that of its question */
    const char *text;   /* not terminated; valid until the channel is used again */
    size_t len;
};

/* A pair of connected ends, not inherited by programs. ERR_CONNECT. */
int channel_pair(struct channel *a, struct channel *b, struct err *e);

/* Closes. A second time harmless; so is a channel that is all zero but for its fd of -1. */
void channel_release(struct channel *c);

/*
 * Sends, now or later. -1 when the text is too long, too much is waiting or memory is short: then
 * nothing of it is sent.
 */
int channel_send(struct channel *c, uint32_t type, uint64_t reference, const void *text,
                 size_t len);

/* Something waits to be sent: time to wait for the socket to be writable. */
bool channel_wants_out(const struct channel *c);

/* Sends what waits, for so long at most. */
void channel_flush(struct channel *c, int timeout_ms);

/*
 * Sends what waits, and receives what is there. -1 when the other end is gone or says what is none
 * (it is closed then; what came before can still be taken).
 */
int channel_pump(struct channel *c);

/* The next whole message that was received. */
bool channel_next(struct channel *c, struct channel_message *m);

#endif
