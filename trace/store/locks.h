#ifndef TIDEMARK_TRACE_STORE_LOCKS_H
#define TIDEMARK_TRACE_STORE_LOCKS_H

/*
 * Locks and who waits for them. A lock lists the threads that use it, 64 at most, and its events
 * name them by their place in that list.
 * Source: server/TracyWorker.cpp ProcessLock* and InsertLockEvent, server/TracyEvent.hpp LockMap
 * @ v0.9.1 … v0.14.0.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/map.h"
#include "base/spool.h"
#include "base/vec.h"
#include "trace/file/limits.h"

/* As in the file: server/TracyEvent.hpp LockEvent::Type @ v0.14.0. */
enum lock_event_kind {
    LOCK_WAIT,
    LOCK_OBTAIN,
    LOCK_RELEASE,
    LOCK_WAIT_SHARED,
    LOCK_OBTAIN_SHARED,
    LOCK_RELEASE_SHARED,
};

/* One for each event of every lock, in the order in which they came. */
struct lock_event {
    int64_t time;
    uint32_t lock;
    uint8_t thread; /* place in the lock's list */
    uint8_t kind;   /* enum lock_event_kind */
    uint16_t unused;
};

struct lock_thread {
    uint64_t id;
    uint64_t markable; /* 1 + the place of its latest wait or obtain, 0 without one */
    uint32_t held;     /* how many times it has the lock */
    bool waits, shared;
};

struct lock {
    uint32_t id;
    uint32_t name; /* string number; 0 none */
    int16_t location;
    uint8_t type; /* 0 exclusive, 1 shared */
    bool terminated, disorder;
    int64_t announced, ended; /* ns; `ended` 0 while it exists */
    uint64_t holder;          /* thread id of the last exclusive obtain, 0 before it */
    int64_t newest;
    uint64_t count;
    VEC(struct lock_thread) threads;
};

struct locks {
    struct column events;    /* struct lock_event */
    struct column locations; /* int16_t, beside the events; 0 none */
    VEC(struct lock) list;
    struct map numbers;    /* id → number */
    uint64_t unknown;      /* events of locks that were never announced, which are not kept */
    uint64_t threads_over; /* events of threads beyond the 64 of a lock, which are not kept */
    uint64_t lone_marks;   /* marks of threads that never waited for the lock */
};

/* The spool must outlive the locks. */
void locks_init(struct locks *l, struct spool *spool);
void locks_release(struct locks *l);

/* A second announcement of an id is the first one's echo, and changes nothing. */
int locks_announce(struct locks *l, uint32_t id, uint8_t type, int16_t location, int64_t time,
                   struct err *e);
void locks_terminate(struct locks *l, uint32_t id, int64_t time);
void locks_name(struct locks *l, uint32_t id, uint32_t text);

/* The lock of an id, or NULL, counted. Valid until the next announcement. */
struct lock *locks_find(struct locks *l, uint32_t id);

int locks_event(struct locks *l, struct lock *lock, enum lock_event_kind kind, uint64_t thread,
                int64_t time, struct err *e);

/* The latest wait or obtain of the thread was at this source location. */
int locks_mark(struct locks *l, uint32_t id, uint64_t thread, int16_t location, struct err *e);

/*
 * Begins a new part: locks that exist stay, events go; who waits for a lock or has it does so again
 * at 0.
 */
int locks_carry(struct locks *l, struct err *e);

#endif
