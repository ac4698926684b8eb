#ifndef TIDEMARK_SERVER_CAPTURE_CLIENT_MEMORY_H
#define TIDEMARK_SERVER_CAPTURE_CLIENT_MEMORY_H

/*
 * Plots of what the kernel counts of a client's process on this host (proc/process_memory.h), with
 * times on the client's clock. Tracy's clients read the processor's time stamp counter or
 * CLOCK_MONOTONIC_RAW, and so does this process, if the age of the client is right then. Of other
 * clocks is known that no event arrives before it happened: the smallest difference seen between
 * CLOCK_MONOTONIC and the newest event is taken as that of the clocks.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/view.h"
#include "proc/memory_rounds.h"
#include "proc/process_memory.h"
#include "server/capture/journal.h"

struct client_memory {
    struct memory_rounds rounds;
    struct process_memory process;
    struct welcome clock;
    bool shared;   /* the client's clock is read here */
    int64_t least; /* a time on it that is over */
    /* otherwise */
    int64_t ahead;  /* of CLOCK_MONOTONIC to the client's clock, in ns */
    int64_t seen;   /* CLOCK_MONOTONIC then; 0: never */
    uint32_t named; /* memory_plots_add */
};

/*
 * Begins readings, `hz` per second. `rollup`: as in struct process_memory, taken over. False: the
 * process cannot be read, or is none (0), and there will be no readings. Release it in any case.
 */
bool client_memory_init(struct client_memory *m, uint64_t hz, const struct intake_start *start,
                        pid_t pid, int rollup);
void client_memory_release(struct client_memory *m);

/*
 * Reads if a reading is due, into the sink and into the journal (NULL: none). `latest`: the newest
 * event on the client's clock.
 */
int client_memory_tick(struct client_memory *m, int64_t latest, const struct event_sink *sink,
                       struct journal *journal, struct err *e);

/* Adds the reading of a journal's record. A record of another layout is skipped. */
int client_memory_play(struct view record, uint32_t *named, const struct event_sink *sink,
                       struct err *e);

#endif
