#pragma once

/* The struct of each thread, and the chunks that it writes. All functions preserve errno. */

#include "client/state.h"

/* At least the longest record of a block. */
#define THREADS_BLOCK 64u

/* Called once, before the first thread is registered. */
void threads_begin(void);

/* The struct of the calling thread, allocated if needed. NULL: no memory. */
struct thread *threads_attach(void);

/* Ensures that the calling thread's counts are added up when it ends. */
void threads_expect_end(void);

/* Releases the struct of an ended thread after its event was recorded. */
void threads_detach(void);

/*
 * A signal handler jumped out of a hook of the calling thread: drops what was in progress. Its
 * chunks stay as committed, since their state in the thread may be inconsistent.
 */
void threads_recover(struct thread *t);

/*
 * The calling thread jumps to dlopen, called from `origin`, whose return will not be seen: its next
 * event outside of dlopen closes the zone. False: this cannot be determined on its stack.
 */
bool threads_load(const struct origin *origin, const struct own_zone *zone);

/* That dlopen is known to have returned. */
void threads_loaded(void);

/*
 * As tls.thread, but valid also during such a dlopen: for code that needs the thread's struct in
 * any case.
 */
static inline struct thread *threads_own(void)
{
    return tls.thread ? tls.thread : tls.loading.thread;
}

/*
 * The recording has ended: waits until no thread is in a hook. False: timed out, or there may be
 * unknown threads.
 */
bool threads_wait(void);

/* Call it after that: unmaps the chunks of all threads and resets their state. */
void threads_leave(void);

/* In a child of fork: drops all threads but the calling one, and their open records. */
void threads_forget(void);

/*
 * Ensures `need` bytes in the chunk of `level`, if necessary in a new chunk. False: there is no
 * room, and the recording has ended.
 */
bool threads_room_slow(struct thread *t, unsigned level, size_t need);

static inline bool threads_room(struct thread *t, unsigned level, size_t need)
{
    const struct writer *w = &t->writers[level];
    if (client_likely((size_t)(w->end - w->at) >= need))
        return true;
    return threads_room_slow(t, level, need);
}

/*
 * REC_FULL_DROP: whether a record other than a free may take `need` bytes of the chunk of `level`,
 * or have a new chunk.
 */
bool threads_may_add(struct thread *t, unsigned level, size_t need);

/* Records the calling thread's name if it has changed. */
void threads_note_name(struct thread *t);
