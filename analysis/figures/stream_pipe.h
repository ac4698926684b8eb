#pragma once

/*
 * A bounded queue of portions of time-ordered steps between the code that orders them and the code
 * that counts them. Steps of a long trace are counted in a separate thread. Their order and
 * portions do not depend on that: without a thread, each portion is counted when it is put.
 */

#include <stddef.h>

#include "base/err.h"

struct stream_pipe_kind {
    size_t size; /* bytes of a portion; the first ones have zeros */
    /* Counts a portion. -1 with `e`. */
    int (*take)(void *ctx, void *portion, struct err *e);
    void (*release)(void *portion); /* NULL: a portion owns nothing */
};

struct stream_pipe;

/* The thread owns the data of `ctx` between stream_pipe_put and stream_pipe_drain. */
int stream_pipe_open(struct stream_pipe **out, const struct stream_pipe_kind *kind, void *ctx,
                     struct err *e);

/* `p` may be NULL. Portions that were not counted yet are dropped. */
void stream_pipe_close(struct stream_pipe *p);

/* From now on portions are counted in a thread, if one can be started. */
void stream_pipe_start(struct stream_pipe *p);

/* A portion to fill, which may hold what an earlier one did. */
void *stream_pipe_room(struct stream_pipe *p);

/* Puts it in the queue. -1 with the error of the counter, now or later. */
int stream_pipe_put(struct stream_pipe *p, struct err *e);

/* Waits until all portions are counted. */
int stream_pipe_drain(struct stream_pipe *p, struct err *e);
