#ifndef TIDEMARK_CLI_WEBHOOK_H
#define TIDEMARK_CLI_WEBHOOK_H

/* Where events are sent: the parts of an http URL. */

#include "base/err.h"

struct webhook {
    char *address; /* "host:port"; NULL: there is none */
    char *path;
};

/* "http://host[:port][/path]"; of a URL with TLS it is said what does that. ERR_USAGE. */
int webhook_parse(struct webhook *w, const char *url, struct err *e);
void webhook_release(struct webhook *w);

#endif
