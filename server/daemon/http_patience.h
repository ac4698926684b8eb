#ifndef TIDEMARK_SERVER_DAEMON_HTTP_PATIENCE_H
#define TIDEMARK_SERVER_DAEMON_HTTP_PATIENCE_H

/*
 * Which connections the web server keeps, and for how long. libmicrohttpd counts from the last
 * byte, so who sends one now and then would hold a connection for ever; here the time of a whole
 * request counts. A stranger, who has asked for nothing yet that he may have, has less time than
 * others; and before all connections are taken, or too many by one address, the oldest of strangers
 * are hung up on, then those that wait for a further request. An answer that is being given to
 * somebody who may have it is never cut, unless his host is gone: the stream of events is one.
 */

#include <microhttpd.h>
#include <stdbool.h>

#define HTTP_REQUEST_SECONDS 10 /* for a request, from its connection on; a stranger's answer */
#define HTTP_STRANGER_SECONDS 5 /* for his further one */
#define HTTP_IDLE_SECONDS 60    /* for a further one, from the answer on */
#define HTTP_CROWD 112u         /* with more connections than this, some are hung up on */
#define HTTP_CROWD_OF_ONE 80u   /* the same for those of one address */

struct http_wait;

struct http_patience {
    __typeof__(MHD_get_connection_info) *info;
    struct http_wait *first; /* newest */
    long long looked;        /* monotonic ns */
};

/* libmicrohttpd's MHD_OPTION_NOTIFY_CONNECTION; `ctx` is a struct http_patience. */
void http_patience_notify(void *ctx, struct MHD_Connection *c, void **own,
                          enum MHD_ConnectionNotificationCode what);

/*
 * The connection's request is there: who is trusted gets an answer that may take its time; and when
 * it was answered.
 */
void http_patience_came(const struct http_patience *p, struct MHD_Connection *c, bool trusted);
void http_patience_answered(const struct http_patience *p, struct MHD_Connection *c);

/* Hangs up on those that were waited for too long, or that there is no room for. */
void http_patience_turn(struct http_patience *p);

#endif
