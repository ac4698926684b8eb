#ifndef TIDEMARK_RUN_RECORDING_RECORDING_CHUNKS_H
#define TIDEMARK_RUN_RECORDING_RECORDING_CHUNKS_H

/*
 * The chunks of a recording file (client/recording_format.h has the format), found while the
 * process that writes them lives or after it ended. Everything is read with pread, never mapped:
 * the other side may cut the file short.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/vec.h"
#include "client/recording_format.h"

/* A chunk as its header says, checked. */
struct chunk {
    uint32_t unit, units;
    uint32_t kind; /* enum rec_chunk_kind */
    uint32_t capacity;
    uint32_t committed; /* ≤ capacity */
    uint32_t first_node;
    uint32_t level;
    uint64_t tid;
    uint64_t base_stamp, base_ns;
    uint64_t pending;
    bool closed;
};

struct chunks {
    int fd;             /* the caller's */
    uint32_t looked;    /* units below were looked at */
    VEC(uint32_t) gaps; /* those of them that held no chunk then */
};

typedef int chunks_put(void *ctx, const struct chunk *c, struct err *e);

void chunks_init(struct chunks *c, int fd);
void chunks_release(struct chunks *c);

/* The file's header. ERR_INPUT when it is none, or of a version that is not known. */
int chunks_header(const struct chunks *c, struct rec_header *h, struct err *e);

/* Puts the chunks that came to be since the last time, up to `units_taken`. */
int chunks_scan(struct chunks *c, uint32_t units_taken, chunks_put *put, void *ctx, struct err *e);

/* Reads the header of a chunk again: what is committed now. False when it makes no sense. */
bool chunks_look(const struct chunks *c, struct chunk *chunk);

/*
 * Gives the space of a chunk back, whose process lives and will not add to it, and tells the
 * process so.
 */
void chunks_give_back(const struct chunks *c, const struct chunk *chunk);

/* Bytes behind a chunk's header. Returns how many could be read. */
size_t chunks_read(const struct chunks *c, const struct chunk *chunk, uint32_t from, void *bytes,
                   size_t n);

#endif
