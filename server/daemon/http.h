#ifndef TIDEMARK_SERVER_DAEMON_HTTP_H
#define TIDEMARK_SERVER_DAEMON_HTTP_H

/*
 * The daemon's web server, on top of libmicrohttpd and in the daemon's own loop: nothing here waits
 * and there are no threads. Who may ask is decided here:
 *
 * - a server on the loopback answers only when it is called by a name of the loopback (Host), so
 *   that no page can reach it through a name of its own; any other address needs a token;
 * - a request that tells its Origin must come from our own page;
 * - with a token, everything but what `open` says needs it: "Authorization: Bearer TOKEN", or the
 *   cookie that http_login sets.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define HTTP_BODY_MAX 4096u                       /* bytes of a request's body */
#define HTTP_CONNECTIONS_MAX 128u                 /* at a time */
#define HTTP_CONNECTIONS_OF_ONE 96u               /* of one address, but not on the loopback */
#define HTTP_STREAM_WAITING_MAX ((size_t)1 << 20) /* bytes for a reader that does not read */

struct http_server;
struct http_exchange; /* a request, and what is answered */

struct http_options {
    const char *address; /* "127.0.0.1:8088", "[::1]:8088"; a port of 0 is any */
    int listening;       /* a socket that listens there already and is taken over; 0: none */
    const char *token;   /* NULL: none */
    /* Whether a path can be asked for without the token. */
    bool (*open)(void *ctx, const char *path);
    /* Answers, now or later. */
    void (*handle)(void *ctx, struct http_exchange *x);
    /* It is over: the exchange must not be used from here on. */
    void (*over)(void *ctx, struct http_exchange *x);
    void *ctx;
};

/*
 * From now on another token is asked for; answers that are being given, streams too, go on. For a
 * server that has one. False: memory is short, and nothing has changed.
 */
bool http_set_token(struct http_server *s, const char *token);

/* ERR_USAGE for an address that is none or needs a token, ERR_CONNECT when it cannot be had. */
struct http_server *http_start(const struct http_options *options, struct err *e);
void http_stop(struct http_server *s);

uint16_t http_port(const struct http_server *s);

/*
 * Readable when http_turn has something new to do; it is to be called now and then in any case. The
 * descriptor tells of news only: while http_has_more, nothing is to be waited for.
 */
int http_fd(const struct http_server *s);
bool http_has_more(const struct http_server *s);
void http_turn(struct http_server *s);

/* ---- a request */

const char *http_method(const struct http_exchange *x);
const char *http_path(const struct http_exchange *x);
const char *http_body(const struct http_exchange *x, size_t *len);

/* Whether "?name" or "?name=…" was asked with. */
bool http_has_argument(const struct http_exchange *x, const char *name);

/* For the caller's own use. */
void http_set_note(struct http_exchange *x, uint64_t note);
uint64_t http_note(const struct http_exchange *x);

/* ---- answers; each exchange has one */

void http_reply(struct http_exchange *x, unsigned status, const char *type, const void *text,
                size_t len);

/* {"error": "…"} */
void http_refuse(struct http_exchange *x, unsigned status, const char *why);

/* All of an open file, which is taken over, to be kept under `name`. */
void http_reply_file(struct http_exchange *x, int fd, uint64_t size, const char *type,
                     const char *name);

/* The same without a name, to be read as it is. */
void http_reply_fd(struct http_exchange *x, int fd, uint64_t size, const char *type);

/*
 * The same, a page made of what strangers said: it may run its own scripts in an origin of its own,
 * so it can ask this server for nothing, and nobody else. `name` is the trace's: asked for with
 * "?download" the page is to be kept as `name`.html.
 */
void http_reply_document(struct http_exchange *x, int fd, uint64_t size, const char *name);

/* Gives the cookie to who sent the right token as the body. */
void http_login(struct http_exchange *x);

/* A stream of server-sent events; http_push adds to it. */
void http_stream(struct http_exchange *x);

/* An event as a whole. False: it is left out: too much waits to be read, or memory is short. */
bool http_push(struct http_exchange *x, const void *text, size_t len);

#endif
