#pragma once

/*
 * Locks and the threads that wait for them. A lock lists the threads that use it, 64 at most; its
 * events refer to them by their position in that list. Source: server/TracyWorker.cpp ProcessLock*
 * and InsertLockEvent, server/TracyEvent.hpp LockMap @ v0.9.1 … v0.14.0.
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

/* One per event of every lock, in order of arrival. */
struct lock_event {
    int64_t time;
    uint32_t lock;
    uint8_t thread; /* position in the lock's list */
    uint8_t kind;   /* enum lock_event_kind */
    uint16_t unused;
};

struct lock_thread {
    uint64_t id;
    uint64_t markable; /* 1 + index of its latest wait or obtain; 0: none */
    uint32_t held;     /* how often it holds the lock */
    bool waits, shared;
};

struct lock {
    uint32_t id;
    uint32_t name; /* string number; 0: none */
    int16_t location;
    uint8_t type; /* 0: exclusive, 1: shared */
    bool terminated, disorder;
    int64_t announced, ended; /* ns; `ended` is 0 while the lock exists */
    uint64_t holder;          /* thread id of the last exclusive obtain; 0: none yet */
    int64_t newest;
    uint64_t count;
    VEC(struct lock_thread) threads;
};

struct locks {
    struct column events;    /* struct lock_event */
    struct column locations; /* int16_t, parallel to events; 0: none */
    VEC(struct lock) list;
    struct map numbers;    /* id → number */
    uint64_t unknown;      /* dropped events of locks that were never announced */
    uint64_t threads_over; /* dropped events of threads beyond a lock's 64 */
    uint64_t lone_marks;   /* marks of threads that never waited for the lock */
};

/* The spool must outlive the locks. */
void locks_init(struct locks *l, struct spool *spool);
void locks_release(struct locks *l);

/* Announces a lock. A repeated announcement of an id changes nothing. */
int locks_announce(struct locks *l, uint32_t id, uint8_t type, int16_t location, int64_t time,
                   struct err *e);
void locks_terminate(struct locks *l, uint32_t id, int64_t time);
void locks_name(struct locks *l, uint32_t id, uint32_t text);

/* The lock of an id; NULL, counted, if unknown. Valid until the next announcement. */
struct lock *locks_find(struct locks *l, uint32_t id);

int locks_event(struct locks *l, struct lock *lock, enum lock_event_kind kind, uint64_t thread,
                int64_t time, struct err *e);

/* Sets the source location of the thread's latest wait or obtain. */
int locks_mark(struct locks *l, uint32_t id, uint64_t thread, int16_t location, struct err *e);

/*
 * Begins a new part: keeps existing locks and drops events; threads that wait for a lock or hold it
 * do so again at 0.
 */
int locks_carry(struct locks *l, struct err *e);
