#pragma once

/*
 * Threads and processes of a Chrome trace. A trace has one space of thread ids, so a thread of a
 * process has the process's number in the upper 32 bits: import/src/import-chrome.cpp @ v0.14.0.
 * Text ids get numbers.
 */

#include "import/chrome_event.h"

/* An id as in the file. */
struct chrome_id {
    uint64_t number;
    uint32_t text; /* string number of a text id, else 0 */
    bool there;
};

struct chrome_thread {
    struct chrome_id process, thread;
    uint64_t id;   /* id in the trace */
    uint32_t name; /* string number, or 0 */
    int32_t sort_index;
    bool sorted; /* has a sort index */
};

struct chrome_process {
    struct chrome_id id;
    uint32_t name;
};

struct chrome_ids {
    struct trace *trace;
    VEC(struct chrome_thread) threads;
    VEC(struct chrome_process) processes;
    struct map by_process; /* hash of a process → index in processes */
    struct map by_pair;    /* hash of (process, thread) → index in threads */
    struct map by_id;      /* id in the trace → index in threads */
};

void chrome_ids_release(struct chrome_ids *ids);

/* Reads the id in a field. */
int chrome_id_of(struct chrome_ids *ids, const struct chrome_event *ev, enum chrome_field field,
                 struct chrome_id *id, struct err *e);

/* The trace's thread id of an event. */
int chrome_thread_of(struct chrome_ids *ids, const struct chrome_event *ev, uint64_t *thread,
                     struct err *e);

/* The trace's id of a thread that is not in the file; `name` replaces its id. */
int chrome_track_thread(struct chrome_ids *ids, const struct chrome_id *process, const char *name,
                        uint64_t *thread, struct err *e);

/* Handles a metadata event about a thread or process. */
int chrome_metadata(struct chrome_ids *ids, const struct chrome_event *ev,
                    struct import_counts *counts, struct err *e);

/*
 * Passes the names of all threads that have events, and the facts about processes, to the ingest.
 */
int chrome_ids_finish(const struct chrome_ids *ids, struct ingest *in, struct err *e);

/* Appends the id as in the file. */
void chrome_id_put(const struct chrome_ids *ids, struct buf *to, struct chrome_id id);
