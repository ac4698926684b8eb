#ifndef TIDEMARK_CLI_CAPTURES_H
#define TIDEMARK_CLI_CAPTURES_H

/*
 * The captures of a daemon: a process each, so that none can take another with it. Each writes its
 * words into a pipe; the daemon shows them.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/vec.h"
#include "server/discovery.h"

enum capture_state {
    CAPTURE_RUNNING,
    CAPTURE_SAVED,
    CAPTURE_FAILED,  /* nothing was saved; tried again at a later announcement */
    CAPTURE_REFUSED, /* the client cannot be captured: not tried again while it lives */
};

struct capture {
    enum capture_state state;
    unsigned number; /* in the order of beginning, from 1 */
    struct announcement client;
    int32_t active_time; /* newest that it announced: a smaller one is another program's */
    long long ended;     /* monotonic ns */
    pid_t pid;
    int words;        /* read end of its pipe, -1 once it is closed */
    char *output;     /* the trace */
    struct buf line;  /* of its words, the one that is not complete */
    char *last_words; /* its newest complete line, escaped for terminals */
    int status;       /* exit status */
    uint64_t bytes;   /* of the trace */
};

struct captures {
    VEC(struct capture *) list;
    unsigned running;
    unsigned begun;
    const char *dir;
    const char *const *options; /* handed on to each capture, NULL at the end */
};

void captures_release(struct captures *c);

/* The newest capture of the client that announced itself, or NULL. */
struct capture *captures_find(const struct captures *c, const struct announcement *a);

/*
 * Begins to capture a client, in a process of its own. `keep_closed` are descriptors that the
 * process has no use for. NULL with `e` filled.
 */
struct capture *captures_begin(struct captures *c, const struct announcement *a,
                               const int *keep_closed, unsigned n, struct err *e);

/*
 * Takes what a capture has said. `said` is called for each complete line. At the end of its words
 * the process is waited for, and its state set.
 */
void captures_listen(struct captures *c, struct capture *one,
                     void (*said)(void *ctx, const struct capture *one), void *ctx);

/* Asks all that run to stop and save; asked again they do not wait for the client's answers. */
void captures_stop(const struct captures *c);

/* Forgets failures that ended more than a minute ago. */
void captures_forget(struct captures *c);

#endif
