#pragma once

/*
 * Zones that begin and end by id ("b", "e"), possibly on different threads and across other zones
 * of a thread. Tracy's zones nest within a thread, so these go on separate tracks: threads "async
 * track N" of the process where the id first began. An id keeps its track while zones of it are
 * open; then the track is free for another id.
 */

#include "import/chrome_ids.h"

struct chrome_track {
    uint64_t thread;    /* id in the trace */
    uint64_t open;      /* open zones */
    uint64_t next_free; /* next free track of the process: index + 1, 0: none */
    uint32_t process;
};

struct chrome_async {
    VEC(struct chrome_id) processes;
    struct map process_numbers; /* hash → index in processes */
    VEC(struct chrome_track) tracks;
    struct map tracks_of; /* process → number of its tracks */
    struct map free;      /* process → index + 1 of a free track */
    struct map active;    /* key of an id → index in tracks */
};

void chrome_async_release(struct chrome_async *a);

/*
 * Called while events are read, in any order: gets the key of an event's id (0: none) and the index
 * of its process.
 */
int chrome_async_key(struct chrome_async *a, struct chrome_ids *ids, const struct chrome_event *ev,
                     uint64_t *key, uint32_t *process, struct err *e);

/* Begins a zone and sets *thread. Must be called in order of time. */
int chrome_async_begin(struct chrome_async *a, struct chrome_ids *ids, uint64_t key,
                       uint32_t process, uint64_t *thread, struct err *e);

/* The thread on which a zone ends; false when the id has no open zone. */
bool chrome_async_end(struct chrome_async *a, uint64_t key, uint64_t *thread);
