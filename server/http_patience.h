#ifndef TIDEMARK_SERVER_HTTP_PATIENCE_H
#define TIDEMARK_SERVER_HTTP_PATIENCE_H

/*
 * How long the web server waits for a connection's next request. libmicrohttpd counts from the last
 * byte, so who sends one now and then would hold a connection for ever; here the time of a whole
 * request counts.
 */

#include <microhttpd.h>

#define HTTP_REQUEST_SECONDS 20 /* for a request, from its connection on */
#define HTTP_IDLE_SECONDS 60    /* for a further one, from the answer on */

struct http_wait;

struct http_patience {
    __typeof__(MHD_get_connection_info) *info;
    struct http_wait *first;
    long long looked; /* monotonic ns */
};

/* libmicrohttpd's MHD_OPTION_NOTIFY_CONNECTION; `ctx` is a struct http_patience. */
void http_patience_notify(void *ctx, struct MHD_Connection *c, void **own,
                          enum MHD_ConnectionNotificationCode what);

/* The connection's request is there: its answer may take its time; and when it was answered. */
void http_patience_came(const struct http_patience *p, struct MHD_Connection *c);
void http_patience_answered(const struct http_patience *p, struct MHD_Connection *c);

/* Hangs up on those that were waited for too long. */
void http_patience_turn(struct http_patience *p);

#endif
