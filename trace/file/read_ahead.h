#ifndef TIDEMARK_TRACE_FILE_READ_AHEAD_H
#define TIDEMARK_TRACE_FILE_READ_AHEAD_H

/*
 * Reads the blocks of a container in a thread of its own, so that they are decompressed while those
 * before them are made use of. What is read is the same, and so is where an error shows: blocks and
 * errors come in their order, and what lies beyond the last block that was asked for does not
 * matter.
 *
 * Where no thread can be had, blocks are read when they are asked for.
 */

#include <stdint.h>

#include "base/err.h"
#include "trace/file/container.h"
#include "trace/file/stream.h"

/* Blocks that may wait. */
#define READ_AHEAD_DEPTH 8u

struct read_ahead;

/* Nobody else may use the reader until read_ahead_free. */
int read_ahead_open(struct read_ahead **out, struct container_reader *from, struct err *e);

struct byte_source read_ahead_source(struct read_ahead *r);

/* As of the block that was read last, and where it ends in the file. */
const struct container_info *read_ahead_info(const struct read_ahead *r);
struct container_mark read_ahead_mark(const struct read_ahead *r);

/* Ends the thread, wherever it is. NULL is harmless. */
void read_ahead_free(struct read_ahead *r);

#endif
