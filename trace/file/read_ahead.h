#pragma once

/*
 * Reads the blocks of a container in a separate thread, so that they are decompressed while the
 * consumer uses earlier ones. The result is the same: blocks and errors arrive in order, and an
 * error after the last requested block has no effect.
 *
 * If no thread can be created, blocks are read on demand.
 */

#include <stdint.h>

#include "base/err.h"
#include "trace/file/container.h"
#include "trace/file/stream.h"

/* The most blocks read ahead. */
#define READ_AHEAD_DEPTH 8u

struct read_ahead;

/* No other code may use the reader until read_ahead_free. */
int read_ahead_open(struct read_ahead **out, struct container_reader *from, struct err *e);

struct byte_source read_ahead_source(struct read_ahead *r);

/* The state as of the block last returned, and its end in the file. */
const struct container_info *read_ahead_info(const struct read_ahead *r);
struct container_mark read_ahead_mark(const struct read_ahead *r);

/* Ends the thread at any point. Accepts NULL. */
void read_ahead_free(struct read_ahead *r);
