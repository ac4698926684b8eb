#ifndef TIDEMARK_TRACE_BLOCK_THREAD_H
#define TIDEMARK_TRACE_BLOCK_THREAD_H

/*
 * Hands blocks of a stream to a sink in a thread of its own, in their order and with what is known
 * of their events, so that compressing and writing go on while the next blocks are made. What is
 * written is the same. A few blocks may wait; who puts one more waits, too.
 *
 * Where no thread can be had the sink is called at once, by who puts.
 */

#include "base/err.h"
#include "trace/stream.h"

/* Blocks that may wait. */
#define BLOCK_THREAD_DEPTH 8u

struct block_thread;

/* Only the thread calls `to` from now on, until block_thread_finish or block_thread_free. */
int block_thread_open(struct block_thread **out, struct block_sink to, struct err *e);

/* An error of the sink comes with a later put, or at the end. */
struct block_sink block_thread_sink(struct block_thread *t);

/* Waits until all blocks are with the sink; then the thread is gone. -1 with the sink's error. */
int block_thread_finish(struct block_thread *t, struct err *e);

/* Blocks that wait are dropped unless it was finished. NULL is harmless. */
void block_thread_free(struct block_thread *t);

#endif
