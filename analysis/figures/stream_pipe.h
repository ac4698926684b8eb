#ifndef TIDEMARK_ANALYSIS_FIGURES_STREAM_PIPE_H
#define TIDEMARK_ANALYSIS_FIGURES_STREAM_PIPE_H

/*
 * Steps in order of time, on their way from whoever brings them in order to whoever counts them. Of
 * a long trace they are counted in a thread of their own. They come in the same order and the same
 * portions anyway, and without a thread each portion is counted when it is handed over.
 */

#include <stdbool.h>
#include <stddef.h>

#include "analysis/figures/stream_parts.h"
#include "base/err.h"

/* Counts a portion. -1 with `e`. */
typedef int stream_take(void *ctx, const struct stream_portion *portion, struct err *e);

struct stream_pipe;

/* What `ctx` points to is the thread's between stream_pipe_put and stream_pipe_drain. */
int stream_pipe_open(struct stream_pipe **out, stream_take *take, void *ctx, struct err *e);

/* NULL is harmless. What was not counted yet will not be. */
void stream_pipe_close(struct stream_pipe *p);

/* From now on portions are counted in a thread, if there can be one. */
void stream_pipe_start(struct stream_pipe *p);

/* Room for the next portion, which is empty. */
struct stream_portion *stream_pipe_room(struct stream_pipe *p);

/* Hands it over. -1 with the error of who counts, here or later. */
int stream_pipe_put(struct stream_pipe *p, struct err *e);

/* Waits until all that was handed over is counted. */
int stream_pipe_drain(struct stream_pipe *p, struct err *e);

#endif
