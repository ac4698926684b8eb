#ifndef TIDEMARK_ANALYSIS_FIGURES_STREAM_PIPE_H
#define TIDEMARK_ANALYSIS_FIGURES_STREAM_PIPE_H

/*
 * A bounded queue of time-ordered steps between the merger and the counters. Steps of a long trace
 * are counted in a separate thread. Their order and portions do not depend on that: without a
 * thread, each portion is counted when it is put.
 */

#include <stdbool.h>
#include <stddef.h>

#include "analysis/figures/stream_parts.h"
#include "base/err.h"

/* Counts a portion. -1 with `e`. */
typedef int stream_take(void *ctx, const struct stream_portion *portion, struct err *e);

struct stream_pipe;

/* The thread owns the data of `ctx` between stream_pipe_put and stream_pipe_drain. */
int stream_pipe_open(struct stream_pipe **out, stream_take *take, void *ctx, struct err *e);

/* `p` may be NULL. Portions that were not counted yet are dropped. */
void stream_pipe_close(struct stream_pipe *p);

/* From now on portions are counted in a thread, if one can be started. */
void stream_pipe_start(struct stream_pipe *p);

/* An empty portion to fill. */
struct stream_portion *stream_pipe_room(struct stream_pipe *p);

/* Puts it in the queue. -1 with the error of the counter, now or later. */
int stream_pipe_put(struct stream_pipe *p, struct err *e);

/* Waits until all portions are counted. */
int stream_pipe_drain(struct stream_pipe *p, struct err *e);

#endif
