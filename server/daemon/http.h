#pragma once

/*
 * The daemon's web server, on top of libmicrohttpd and in the daemon's event loop: no call blocks
 * and there are no threads. It controls access:
 *
 * - a server on the loopback answers only requests whose Host is a loopback name, which defeats
 *   DNS rebinding; any other address needs a token;
 * - a request with an Origin must come from the dashboard itself;
 * - with a token, all paths but those that `open` accepts need it: "Authorization: Bearer TOKEN",
 * or
 *   the cookie that http_login sets.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define HTTP_BODY_MAX 4096u                       /* bytes of a request's body */
#define HTTP_CONNECTIONS_MAX 128u                 /* at a time */
#define HTTP_CONNECTIONS_OF_ONE 96u               /* of one address; not enforced on the loopback */
#define HTTP_STREAM_WAITING_MAX ((size_t)1 << 20) /* bytes queued for a slow reader */

struct http_server;
struct http_exchange; /* a request and its answer */

struct http_options {
    const char *address; /* "127.0.0.1:8088", "[::1]:8088"; port 0: any free one */
    int listening;       /* a listening socket to take over; 0: none */
    const char *token;   /* NULL: none */
    /* Whether a path needs no token. */
    bool (*open)(void *ctx, const char *path);
    /* Handles a request, which may be answered now or later. */
    void (*handle)(void *ctx, struct http_exchange *x);
    /* The exchange has ended and must not be used any more. */
    void (*over)(void *ctx, struct http_exchange *x);
    void *ctx;
};

/*
 * Replaces the token of a server that has one; running answers, streams too, go on. False: memory
 * is short, and nothing has changed.
 */
bool http_set_token(struct http_server *s, const char *token);

/*
 * ERR_USAGE for an invalid address or one that needs a token, ERR_CONNECT when it cannot be bound.
 */
struct http_server *http_start(const struct http_options *options, struct err *e);
void http_stop(struct http_server *s);

uint16_t http_port(const struct http_server *s);

/*
 * A descriptor that is readable when http_turn has new work; http_turn must also be called
 * regularly. It signals new events only: while http_has_more is true, the caller must not wait.
 */
int http_fd(const struct http_server *s);
bool http_has_more(const struct http_server *s);
void http_turn(struct http_server *s);

/* ---- a request */

const char *http_method(const struct http_exchange *x);
const char *http_path(const struct http_exchange *x);
const char *http_body(const struct http_exchange *x, size_t *len);

/* Whether the query string has "name" or "name=…". */
bool http_has_argument(const struct http_exchange *x, const char *name);

/* ---- answers; each exchange has one */

void http_reply(struct http_exchange *x, unsigned status, const char *type, const void *text,
                size_t len);

/* {"error": "…"} */
void http_refuse(struct http_exchange *x, unsigned status, const char *why);

/* Sends a whole file, open at `fd`, which is taken over, as a download called `name`. */
void http_reply_file(struct http_exchange *x, int fd, uint64_t size, const char *type,
                     const char *name);

/* The same without a name, for display. */
void http_reply_fd(struct http_exchange *x, int fd, uint64_t size, const char *type);

/*
 * The same for an HTML report, whose content is untrusted: its scripts run in an opaque origin and
 * cannot send requests to this or any other server. `name` is the trace's: with "?download" the
 * report is a download called `name`.html.
 */
void http_reply_document(struct http_exchange *x, int fd, uint64_t size, const char *name);

/*
 * The same for a text without untrusted content, which receives it from the dashboard: only the
 * dashboard may hold it in a frame.
 */
void http_reply_frame(struct http_exchange *x, const void *text, size_t len);

/* Sends the cookie if the body is the right token. */
void http_login(struct http_exchange *x);

/* An event for any number of streams. The caller releases both. */
struct http_event {
    struct buf text;
    struct buf packed; /* http_push fills it for the first reader that accepts gzip */
    uint32_t crc;      /* of the text, with `packed` */
};

/*
 * Begins a stream of server-sent events, compressed if the reader accepts gzip; http_push adds to
 * it.
 */
void http_stream(struct http_exchange *x);

/* Sends a whole event. False: it is dropped, because the reader is too slow or memory is short. */
bool http_push(struct http_exchange *x, struct http_event *event);
