#pragma once

/* Writes records (recording_format.h) into the calling thread's chunk. */

#include "client/state.h"

/* The contents of records of blocks; see recording_format.h. */
struct block {
    uint32_t pool;
    uint64_t address, size;
    unsigned how;
    uint32_t stack; /* of a free: 0, none */
};

/* `t` is the calling thread, `level` 0 or 1 (see CLIENT_LEVELS). */
void record_alloc(struct thread *t, unsigned level, const struct block *block);
void record_free(struct thread *t, unsigned level, const struct block *block);
void record_put_back(struct thread *t, unsigned level, const struct block *block);

/* Records the name of a pool, before its first block. */
void record_pool(struct thread *t, uint32_t pool, const char *name);

void record_owner(struct thread *t, unsigned level);
void record_thread_name(struct thread *t, const char *name);
void record_thread_exit(struct thread *t);
void record_child(struct thread *t, enum rec_kind kind, pid_t pid, bool followed, const char *path);

/*
 * A record with a length, of level 0: begin, write the body after the stamp, end. The body may have
 * REC_RECORD_MAX - 32 bytes. NULL: no room.
 */
uint8_t *record_begin(struct thread *t);
void record_end(struct thread *t, enum rec_kind kind, uint8_t *end);

/* Counts an allocation that REC_FULL_DROP left out, and records it where there is room. */
void record_dropped(struct thread *t, uint32_t pool, uint64_t size);
void record_loss(struct thread *t);

/* Counts an event that could not be recorded. */
void record_lost(enum rec_loss why, bool is_free, size_t bytes);
