#ifndef TIDEMARK_IMPORT_CHROME_ASYNC_H
#define TIDEMARK_IMPORT_CHROME_ASYNC_H

/*
 * Zones that begin and end by id ("b", "e"), maybe on different threads and across other zones of
 * a thread. Tracy's zones nest within a thread, so these get tracks of their own: threads "async
 * track N" of the process where the id first began. An id keeps its track while zones of it are
 * open; then the track is free for another.
 */

#include "import/chrome_ids.h"

struct chrome_track {
    uint64_t thread;    /* in the trace */
    uint64_t open;      /* zones */
    uint64_t next_free; /* of the same process: index + 1, 0 none */
    uint32_t process;
};

struct chrome_async {
    VEC(struct chrome_id) processes;
    struct map process_numbers; /* hash → index in processes */
    VEC(struct chrome_track) tracks;
    struct map tracks_of; /* process → how many tracks it has */
    struct map free;      /* process → index + 1 of a track without open zones */
    struct map active;    /* id's key → index in tracks */
};

void chrome_async_release(struct chrome_async *a);

/*
 * While events are read, in any order: what an event's id is known by (0: it has none), and the
 * number of its process.
 */
int chrome_async_key(struct chrome_async *a, struct chrome_ids *ids, const struct chrome_event *ev,
                     uint64_t *key, uint32_t *process, struct err *e);

/* In order of time: the thread of a zone that begins. */
int chrome_async_begin(struct chrome_async *a, struct chrome_ids *ids, uint64_t key,
                       uint32_t process, uint64_t *thread, struct err *e);

/* The thread on which a zone ends; false when none of the id is open. */
bool chrome_async_end(struct chrome_async *a, uint64_t key, uint64_t *thread);

#endif
