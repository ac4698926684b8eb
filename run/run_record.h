#ifndef TIDEMARK_RUN_RUN_RECORD_H
#define TIDEMARK_RUN_RUN_RECORD_H

/* A trace in the making: of one process's recording, or of those of several short ones. */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "run/recording/recording.h"
#include "run/run_unseen.h"
#include "trace/store/store.h"

struct run_record {
    struct trace trace;
    struct ingest ingest;
    struct recording_target target;
    uint64_t processes;        /* whose recordings went in */
    uint64_t events;           /* allocations and frees */
    uint64_t notes;            /* what the programs said of themselves: zones, messages, … */
    uint64_t forks;            /* children of theirs that are recorded, too */
    struct run_unseen *unseen; /* takes what they started; NULL: it is not wanted */
};

/* `spool`: where events go that do not fit in memory. NULL with `e` when memory is short. */
struct run_record *run_record_new(const char *spool, struct err *e);
void run_record_free(struct run_record *t);

/* The same, for callers that fill the trace by another ingest: nothing may be added by this one. */
struct run_record *run_record_new_empty(const char *spool, struct err *e);

/*
 * Adds the whole recording of a process that is no more. `part`: others are in the same trace.
 * ERR_INPUT when it holds none.
 */
int run_record_add(struct run_record *t, int fd, bool part, struct err *e);

/* Whether a recording lacks events for reasons that make unknown frees no faults. */
bool run_record_expects_strangers(const struct rec_header *h, bool forked);

/* Reads all that is left of a recording whose process is no more, and ends it. */
int run_record_end(struct run_record *t, struct recording *r, bool part, struct err *e);

/* Ends the trace: facts, faults. To be called once. */
int run_record_close(struct run_record *t, struct err *e);

#endif
