#pragma once

/*
 * Finds the chunks of a recording file (client/recording_format.h), while the writing process lives
 * or after it ended. Reads only with pread, never through a mapping: the writer may truncate the
 * file.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/vec.h"
#include "client/recording_format.h"

/* A chunk's header, checked. */
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
    uint32_t looked;    /* units below were checked */
    VEC(uint32_t) gaps; /* checked units that held no chunk then */
};

typedef int chunks_put(void *ctx, const struct chunk *c, struct err *e);

void chunks_init(struct chunks *c, int fd);
void chunks_release(struct chunks *c);

/* Reads the file's header. ERR_INPUT when it is not one, or its version is unknown. */
int chunks_header(const struct chunks *c, struct rec_header *h, struct err *e);

/* Calls `put` for the chunks that appeared since the last scan, up to `units_taken`. */
int chunks_scan(struct chunks *c, uint32_t units_taken, chunks_put *put, void *ctx, struct err *e);

/* Reads the header of a chunk again, for its committed length. False when it is invalid. */
bool chunks_look(const struct chunks *c, struct chunk *chunk);

/* Frees the space of a chunk to which a live process will not add, and notifies the process. */
void chunks_give_back(const struct chunks *c, const struct chunk *chunk);

/* Reads bytes after a chunk's header. Returns how many could be read. */
size_t chunks_read(const struct chunks *c, const struct chunk *chunk, uint32_t from, void *bytes,
                   size_t n);
