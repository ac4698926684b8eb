#pragma once

/*
 * Turns the bytes of a connection into decompressed frames. A frame is u32 csize and one raw LZ4
 * block; the blocks form one stream whose window is the last 64 KiB of decompressed bytes. Source:
 * server/TracyWorker.cpp Worker::Network, public/client/TracyProfiler.cpp SendData, all protocol
 * numbers.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/snapshot.h"

#define FRAME_SIZE_MAX 262144u       /* decompressed bytes of one frame */
#define FRAME_COMPRESSED_MAX 263188u /* LZ4 bound of the above */
#define FRAME_HISTORY 65536u

/* A frame of the wire, unlike the stack frames of trace/store/callstacks.h. */
struct wire_frame {
    const uint8_t *bytes; /* valid until the next frame_reader_feed */
    uint32_t len;         /* 1 … FRAME_SIZE_MAX */
};

struct frame_reader; /* opaque */

/* A reader at the start of a stream; NULL when memory is short. */
struct frame_reader *frame_reader_new(void);
void frame_reader_free(struct frame_reader *r);

/*
 * Takes bytes from *in (advancing *in and *len), in pieces of any size, until one frame is
 * complete. Returns 1 with *frame filled, 0 when it has taken all bytes and no frame is complete,
 * or -1 when the stream is broken. A broken stream stays broken.
 */
int frame_reader_feed(struct frame_reader *r, const uint8_t **in, size_t *len,
                      struct wire_frame *frame, struct err *e);

struct frame_stats {
    uint64_t frames;
    uint64_t bytes_in;  /* bytes taken from the connection */
    uint64_t bytes_out; /* decompressed */
};

const struct frame_stats *frame_reader_stats(const struct frame_reader *r);

/* Bytes held of an incomplete frame; 0 at a frame boundary. */
size_t frame_reader_partial(const struct frame_reader *r);

/* Saves or restores a reader; after a failure it may only be freed. */
void frame_reader_snapshot(struct snapshot *s, struct frame_reader *r);
