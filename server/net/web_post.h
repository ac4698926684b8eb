#ifndef TIDEMARK_SERVER_NET_WEB_POST_H
#define TIDEMARK_SERVER_NET_WEB_POST_H

/*
 * Sends to a web server that may be anywhere: HTTP or HTTPS (certificates checked), through a
 * proxy where $http_proxy and its like name one. No redirects are followed.
 */

#include "base/buf.h"
#include "base/err.h"

struct web_post;

/*
 * `user` and `password` may be NULL. An address that is none, or of another
 * protocol, is ERR_USAGE. Nothing is sent yet.
 */
struct web_post *web_post_open(const char *url, const char *user, const char *password,
                               struct err *e);
void web_post_close(struct web_post *p);

/*
 * Sends `n` bytes with "?NAME=VALUE" behind the address (`name` NULL: to the address as it is), as
 * `type`, and waits. *answer gets what the server says. ERR_CONNECT when it is not there, cuts off
 * or is silent for a minute; ERR_OUTPUT when its status is not 2xx, with the first line of what it
 * says.
 */
int web_post_send(struct web_post *p, const char *name, const char *value, const char *type,
                  const void *bytes, size_t n, struct buf *answer, struct err *e);

/* What the server answered last: 200, 404, …; 0: nothing. */
unsigned web_post_status(const struct web_post *p);

#endif
