#ifndef TIDEMARK_SERVER_DAEMON_HTTP_HEAD_H
#define TIDEMARK_SERVER_DAEMON_HTTP_HEAD_H

/*
 * Requests whose head a proxy and we might read differently (RFC 9112): libmicrohttpd takes them,
 * and we do not. Two Host fields, Transfer-Encoding beside Content-Length, lines
 * that do not end with CR LF. The library does not say how lines end, only how long the head was:
 * it must be what method, target, version and fields make, each as "Name: value" CR LF.
 */

#include <microhttpd.h>
#include <stddef.h>

struct http_head {
    __typeof__(MHD_get_connection_info) *info;
    __typeof__(MHD_get_connection_values_n) *fields;
    struct MHD_Connection *connection;
    const char *method, *version;
    size_t target; /* bytes of it, as it was sent */
};

/* NULL, or why the request is not answered. To be called when the head has come, and no later. */
const char *http_head_refused(const struct http_head *h);

#endif
