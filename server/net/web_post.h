#pragma once

/*
 * Sends data to a web server: HTTP or HTTPS (certificates are checked, see base/library.h),
 * through a proxy if $http_proxy or a related variable names one. Redirects are not followed.
 */

#include "base/buf.h"
#include "base/err.h"

struct web_post;

/*
 * `user` and `password` may be NULL. ERR_USAGE for an invalid address or another protocol,
 * ERR_CONNECT if there are no certificates for HTTPS. Sends nothing yet.
 */
struct web_post *web_post_open(const char *url, const char *user, const char *password,
                               struct err *e);
void web_post_close(struct web_post *p);

/*
 * Sends `n` bytes of type `type` to the address with "?NAME=VALUE" appended (`name` NULL: as it
 * is), and waits. *answer gets the server's answer. ERR_CONNECT when the server is not reachable,
 * closes the connection or is silent for a minute; ERR_OUTPUT when its status is not 2xx, with the
 * first line of its answer.
 */
int web_post_send(struct web_post *p, const char *name, const char *value, const char *type,
                  const void *bytes, size_t n, struct buf *answer, struct err *e);

/* Status of the last answer: 200, 404, …; 0: none. */
unsigned web_post_status(const struct web_post *p);
