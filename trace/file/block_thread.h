#pragma once

/*
 * Compresses and writes the blocks of a stream in separate threads, one per lane, while the caller
 * produces the next blocks. Blocks are written in order, so the output is the same. The queue holds
 * a few blocks; if it is full, the producer waits.
 *
 * If no thread can be created, the producer does the work itself.
 */

#include "base/err.h"
#include "trace/file/stream.h"

/* The most blocks queued or in work. */
#define BLOCK_THREAD_DEPTH 8u

/* The most threads; further lanes share them. */
#define BLOCK_THREAD_LANES 4u

struct block_thread;

/* From this call until block_thread_finish or block_thread_free, only the threads use `work`. */
int block_thread_open(struct block_thread **out, struct block_work work, struct err *e);

/* A later put, or block_thread_finish, reports an error of the work. */
struct block_sink block_thread_sink(struct block_thread *t);

/* Waits until all blocks are written and ends the threads. Returns -1 with the work's error. */
int block_thread_finish(struct block_thread *t, struct err *e);

/* Drops queued blocks unless it was finished. Accepts NULL. */
void block_thread_free(struct block_thread *t);
