#pragma once

/*
 * Rejects requests whose head a proxy might parse differently (RFC 9112), although libmicrohttpd
 * accepts them: two Host fields, Transfer-Encoding beside Content-Length or other than chunked,
 * lines that do not end with CR LF. The library reports only the length of the head, not its line
 * ends: the length must be that of method, target, version and fields, each as "Name: value" CR LF.
 */

#include <microhttpd.h>
#include <stddef.h>

struct http_head {
    __typeof__(MHD_get_connection_info) *info;
    __typeof__(MHD_get_connection_values_n) *fields;
    struct MHD_Connection *connection;
    const char *method, *version;
    size_t target; /* length of the target as sent */
};

/* NULL, or why the request is rejected. Call it when the head is complete, and not later. */
const char *http_head_refused(const struct http_head *h);
