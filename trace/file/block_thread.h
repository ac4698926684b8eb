#ifndef TIDEMARK_TRACE_FILE_BLOCK_THREAD_H
#define TIDEMARK_TRACE_FILE_BLOCK_THREAD_H

/*
 * Blocks of a stream are compressed and written in threads of their own, one for each lane, so that
 * this goes on while the next blocks are made. They are written in their order, so what is written
 * is the same. A few blocks may wait; who puts one more waits, too.
 *
 * Where a thread cannot be had all is done at once, by who puts.
 */

#include "base/err.h"
#include "trace/file/stream.h"

/* Blocks that may wait, or be worked on. */
#define BLOCK_THREAD_DEPTH 8u

/* Threads at most; more lanes than this share them. */
#define BLOCK_THREAD_LANES 4u

struct block_thread;

/* Only the threads call `work` from now on, until block_thread_finish or block_thread_free. */
int block_thread_open(struct block_thread **out, struct block_work work, struct err *e);

/* An error of the work comes with a later put, or at the end. */
struct block_sink block_thread_sink(struct block_thread *t);

/* Waits until all blocks are written; then the threads are gone. -1 with the work's error. */
int block_thread_finish(struct block_thread *t, struct err *e);

/* Blocks that wait are dropped unless it was finished. NULL is harmless. */
void block_thread_free(struct block_thread *t);

#endif
