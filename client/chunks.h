#pragma once

/* Allocates and maps chunks of the recording file. All functions preserve errno. */

#include "client/state.h"

/* Allocates zeroed memory with mmap; NULL: none. The caller frees it with munmap. */
void *chunks_memory(size_t bytes);

/*
 * Allocates and maps a new chunk of `units`: its space is reserved and its header written except
 * for `magic`, which chunks_publish sets. NULL: no room; the recording has ended (REC_STATE_FULL).
 */
struct rec_chunk *chunks_take(enum rec_chunk_kind kind, uint32_t units);
void chunks_publish(struct rec_chunk *chunk);

/* REC_FULL_DROP: whether so many more units are within the limit; frees ignore the limit. */
bool chunks_fit(uint32_t units);

/* Marks a chunk of events with `chunk_state` and unmaps it. */
void chunks_leave(struct rec_chunk *chunk, enum rec_chunk_state chunk_state);

/* Makes and maps the header of a new file. Returns 0, or -1: no room. */
int chunks_begin(void);

/* Ends this process's recording: the file holds everything before `stamp`. */
void chunks_stop(uint64_t stamp, int why);

static inline size_t chunks_bytes(const struct rec_chunk *chunk)
{
    return (size_t)chunk->units * REC_UNIT;
}
