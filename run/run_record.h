#pragma once

/* A trace being built from the recording of one process, or of several short-lived ones. */

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
    uint64_t processes;        /* whose recordings were added */
    uint64_t events;           /* allocations and frees */
    uint64_t notes;            /* zones, messages, … that the programs sent */
    uint64_t forks;            /* children that are recorded, too */
    uint32_t version;          /* of the file; 0: that of the options */
    bool quiet;                /* no progress lines */
    struct run_unseen *unseen; /* receives the programs they started; NULL: not wanted */
};

/*
 * `spool`: folder for events that do not fit in memory. `figures`: keep none
 * (analysis/figures/figures_only.h). NULL with `e` when memory is short.
 */
struct run_record *run_record_new(const char *spool, bool figures, struct err *e);
void run_record_free(struct run_record *t);

/*
 * The same for callers that fill the trace with another ingest; nothing may be added through this
 * one.
 */
struct run_record *run_record_new_empty(const char *spool, struct err *e);

/*
 * Adds the whole recording of an ended process. `part`: the trace has others, too. ERR_INPUT when
 * it is not a recording.
 */
int run_record_add(struct run_record *t, int fd, bool part, struct err *e);

/* Whether a recording lacks events for a reason that makes frees of unknown blocks normal. */
bool run_record_expects_strangers(const struct rec_header *h, bool forked);

/* Reads the rest of the recording of an ended process, and finishes it. */
int run_record_end(struct run_record *t, struct recording *r, bool part, struct err *e);

/* Completes the trace: facts, faults. Call it once. */
int run_record_close(struct run_record *t, struct err *e);
