#pragma once

/* One request to a daemon's web server (server/daemon/http.h). */

#include <stddef.h>

#include "base/err.h"

struct http_question {
    const char *address; /* "127.0.0.1:8088" */
    const char *method;
    const char *path;
    const char *token; /* NULL: none */
    const char *body;  /* NULL: none */
    const char *type;  /* content type of the body; NULL: not sent */
    double timeout;    /* timeout without a byte of the answer, in seconds */
    /* Receives the answer's body, in pieces. -1 with `e` aborts. */
    int (*take)(void *ctx, const void *bytes, size_t n, struct err *e);
    void *ctx;
};

/*
 * Sends the request and waits for the whole answer; *status is the server's (200, 404, …).
 * ERR_CONNECT when the server does not answer in time, or the answer is invalid or incomplete.
 */
int http_ask(const struct http_question *q, unsigned *status, struct err *e);
