#ifndef TIDEMARK_CLIENT_CHUNKS_H
#define TIDEMARK_CLIENT_CHUNKS_H

/* Pieces of the recording file, mapped. All keep errno. */

#include "client/state.h"

/* Memory of our own, zeroed; NULL: there is none. Given back with munmap, if ever. */
void *chunks_memory(size_t bytes);

/*
 * A new chunk of `units`, mapped, its space reserved, its header written but for `magic`, which
 * chunks_publish sets. NULL: no room; the recording has ended then (REC_STATE_FULL).
 */
struct rec_chunk *chunks_take(enum rec_chunk_kind kind, uint32_t units);
void chunks_publish(struct rec_chunk *chunk);

/* REC_FULL_DROP: whether so many more units are within the bound; frees do not ask. */
bool chunks_fit(uint32_t units);

/* Marks a chunk of events with `chunk_state` and takes it out of memory. */
void chunks_leave(struct rec_chunk *chunk, enum rec_chunk_state chunk_state);

/* Makes the header of a new file and maps it. Returns 0, -1: no room. */
int chunks_begin(void);

/* Ends the recording of this process: the file holds everything before `stamp`. */
void chunks_stop(uint64_t stamp, int why);

static inline size_t chunks_bytes(const struct rec_chunk *chunk)
{
    return (size_t)chunk->units * REC_UNIT;
}

#endif
