#ifndef TIDEMARK_CLIENT_THREADS_H
#define TIDEMARK_CLIENT_THREADS_H

/* The struct of each thread, and the chunks that it writes. All keep errno. */

#include "client/state.h"

/* Bytes of the longest record of a block, and more. */
#define THREADS_BLOCK 64u

/* Called once, before the first thread is met. */
void threads_begin(void);

/* The struct of the calling thread, made if need be. NULL: no memory. */
struct thread *threads_attach(void);

/* Sees to it that what the calling thread counts is added up when it ends. */
void threads_expect_end(void);

/* Gives back the struct of a thread that has ended, once its event is recorded. */
void threads_detach(void);

/*
 * A signal handler jumped out of a hook of the calling thread: what it had begun is forgotten. Its
 * chunks are left as they are committed, since what it knew of them may be half changed.
 */
void threads_recover(struct thread *t);

/*
 * The calling thread goes on in dlopen, called from `origin`, which will not be seen to return: its
 * next event from outside closes the zone. False: that cannot be told on its stack.
 */
bool threads_load(const struct origin *origin, const struct own_zone *zone);

/* That dlopen is known to have returned. */
void threads_loaded(void);

/* As tls.thread, which is NULL meanwhile as well; to be asked by who must have all of a thread. */
static inline struct thread *threads_own(void)
{
    return tls.thread ? tls.thread : tls.loading.thread;
}

/*
 * The recording has ended: waits until no thread is in a hook. False: that took too long, or there
 * may be threads that are not known.
 */
bool threads_wait(void);

/* Behind that: lets go of the chunks of all threads, which forget what they had begun. */
void threads_leave(void);

/* In a child of fork: forgets all threads but the calling one, and all that they had open. */
void threads_forget(void);

/*
 * Sees to `need` bytes in the chunk of `level`, if need be in a new chunk. False: there is no room,
 * and the recording has ended.
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
 * REC_FULL_DROP: whether something that is no free may take `need` bytes of the chunk of `level`,
 * or have a new one.
 */
bool threads_may_add(struct thread *t, unsigned level, size_t need);

/* Records the calling thread's name if it has changed. */
void threads_note_name(struct thread *t);

#endif
