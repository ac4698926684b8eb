#pragma once

/*
 * Timeouts and limits of connections. libmicrohttpd's timeout counts from the last byte, so a
 * client that sends a byte now and then could hold a connection for ever; here the time of a whole
 * request counts. Unauthenticated connections time out sooner. Before the connections, or those of
 * one address, run out, the oldest unauthenticated ones are closed, then idle ones. An authorized
 * answer in progress, such as the event stream, is never cut unless its host is gone.
 */

#include <microhttpd.h>
#include <stdbool.h>

#define HTTP_REQUEST_SECONDS 10 /* for a request, and for an unauthenticated answer */
#define HTTP_STRANGER_SECONDS 5 /* for the next unauthenticated request */
#define HTTP_IDLE_SECONDS 60    /* for the next request, from the answer on */
#define HTTP_CROWD 112u         /* with more connections, some are closed */
#define HTTP_CROWD_OF_ONE 80u   /* the same for one address */

struct http_wait;

struct http_patience {
    __typeof__(MHD_get_connection_info) *info;
    struct http_wait *first; /* newest */
    long long looked;        /* last check; monotonic ns */
};

/* libmicrohttpd's MHD_OPTION_NOTIFY_CONNECTION; `ctx` is a struct http_patience. */
void http_patience_notify(void *ctx, struct MHD_Connection *c, void **own,
                          enum MHD_ConnectionNotificationCode what);

/*
 * http_patience_came: the connection's request has arrived; with `trusted` its answer has no
 * timeout. The next function: the answer was sent.
 */
void http_patience_came(const struct http_patience *p, struct MHD_Connection *c, bool trusted);
void http_patience_answered(const struct http_patience *p, struct MHD_Connection *c);

/* Closes connections that timed out or exceed the limits. */
void http_patience_turn(struct http_patience *p);
