#ifndef TIDEMARK_PROTOCOL_WIRE_FRAME_H
#define TIDEMARK_PROTOCOL_WIRE_FRAME_H

/*
 * Bytes of the connection → decompressed frames. A frame is u32 csize and one raw LZ4 block; the
 * blocks form one stream whose window is the last 64 KiB of decompressed bytes.
 * Source: server/TracyWorker.cpp Worker::Network, public/client/TracyProfiler.cpp SendData, all
 * protocol numbers.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/snapshot.h"

#define FRAME_SIZE_MAX 262144u       /* decompressed bytes of one frame */
#define FRAME_COMPRESSED_MAX 263188u /* LZ4 bound of the above */
#define FRAME_HISTORY 65536u

/* Named for the wire: trace/store/callstacks.h has frames of another kind. */
struct wire_frame {
    const uint8_t *bytes; /* valid until the next frame_reader_feed */
    uint32_t len;         /* 1 … FRAME_SIZE_MAX */
};

struct frame_reader; /* opaque */

/* A reader at the start of a stream, or NULL when memory is short. */
struct frame_reader *frame_reader_new(void);
void frame_reader_free(struct frame_reader *r);

/*
 * Takes bytes from *in (advancing *in and *len), however they are cut, until one frame is complete.
 * Returns 1 with *frame filled, 0 when all bytes are taken and no frame is complete, -1 when the
 * stream is broken (it stays broken).
 */
int frame_reader_feed(struct frame_reader *r, const uint8_t **in, size_t *len,
                      struct wire_frame *frame, struct err *e);

struct frame_stats {
    uint64_t frames;
    uint64_t bytes_in;  /* taken from the connection, complete frames or not */
    uint64_t bytes_out; /* decompressed */
};

const struct frame_stats *frame_reader_stats(const struct frame_reader *r);

/* Bytes of an incomplete frame that are held; 0 at a frame boundary. */
size_t frame_reader_partial(const struct frame_reader *r);

/* The decompressed bytes that the next block may refer to, at most FRAME_HISTORY. */
void frame_reader_history(const struct frame_reader *r, const uint8_t **bytes, size_t *len);

/* The state of a reader, both ways; after a failure it must only be freed. */
void frame_reader_snapshot(struct snapshot *s, struct frame_reader *r);

/* Starts a reader in mid-stream: the next block may refer to these bytes. */
void frame_reader_set_history(struct frame_reader *r, const uint8_t *bytes, size_t len);

#endif
