#pragma once

/*
 * Plots of what the kernel counts of a client's process on this host (proc/process_memory.h), and
 * looks at its pages (proc/page_watch.h), with times on the client's clock. Tracy's clients read
 * the processor's time stamp counter or CLOCK_MONOTONIC_RAW, and so does this process, if the age
 * of the client is right then. Of other clocks is known that no event arrives before it happened:
 * the smallest difference seen between CLOCK_MONOTONIC and the newest event is taken as that of the
 * clocks.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/view.h"
#include "proc/look_times.h"
#include "proc/memory_rounds.h"
#include "proc/page_watch.h"
#include "proc/process_memory.h"
#include "server/capture/journal.h"
#include "trace/ingest/ingest.h"

struct client_memory {
    struct memory_rounds rounds;
    struct process_memory process;
    struct welcome clock;
    bool shared;   /* the client's clock is read here */
    int64_t least; /* a time on it that is over */
    /* otherwise */
    int64_t ahead;    /* of CLOCK_MONOTONIC to the client's clock, in ns */
    int64_t seen;     /* CLOCK_MONOTONIC then; 0: never */
    uint32_t named;   /* memory_plots_add */
    uint32_t cgroups; /* process.cgroups when the journal got the last one; 0: it has none */
    struct page_watch watch;
    struct look_times times; /* chosen ones: `passed` of them have come since `began` */
    size_t passed;
    int64_t began;  /* CLOCK_MONOTONIC, ns */
    unsigned asked; /* looks on request */
    bool blind;     /* its pages may not be read, or are not wanted */
    bool ended;     /* the look at its end was taken */
    bool nears;     /* the end of its memory, since the caller cleared this; it was printed */
};

/*
 * Begins readings, `hz` per second, and looks, also at `times` (NULL: none). `early` is taken over,
 * but its `maps` copied. False: the process cannot be read, or is none (0), and there will be
 * neither. Release it in any case.
 */
bool client_memory_init(struct client_memory *m, uint64_t hz, const struct look_times *times,
                        const struct intake_start *start, pid_t pid,
                        const struct process_early *early);
void client_memory_release(struct client_memory *m);

/*
 * Reads if a reading is due, and looks if a look is due or *asked, which it clears, into the store
 * of `in` and into the journal (NULL: none). Pages that may not be read are not looked at again.
 * Prints what came of a request, and that a chosen time had no look.
 */
int client_memory_tick(struct client_memory *m, struct ingest *in, struct journal *journal,
                       bool *asked, struct err *e);

/* Milliseconds until something is due, at most `most`. */
int client_memory_pause(const struct client_memory *m, int most);

/* Looks when the recording ends, LOOK_AT_EXIT if the client does, and reads. Once. */
int client_memory_end(struct client_memory *m, enum look_reason reason, struct ingest *in,
                      struct journal *journal, struct err *e);

/*
 * Reads what the OOM killer killed in the cgroup of a client that vanished, as the last value of
 * that plot, and prints it if it is not 0.
 */
int client_memory_vanished(struct client_memory *m, struct ingest *in, struct journal *journal,
                           struct err *e);

/* Replays a journal's records. Zero-initialise. */
struct client_memory_player {
    uint32_t named;    /* memory_plots_add */
    struct buf look;   /* the pieces so far */
    struct buf cgroup; /* the last one */
};

/* Adds a reading. A record of another layout is skipped. */
int client_memory_play(struct client_memory_player *p, struct view record, struct ingest *in,
                       struct err *e);

/* Adds a look once it is whole. One that is malformed is skipped. */
int client_memory_play_pages(struct client_memory_player *p, struct view record, struct ingest *in,
                             struct err *e);
int client_memory_play_cgroup(struct client_memory_player *p, struct view record, struct err *e);
void client_memory_player_release(struct client_memory_player *p);

/*
 * For a recovery: if the cgroup of a note (process_memory_from_note) is still there, and the OOM
 * killer has killed in it since the note, prints so and adds it to the trace. An empty note is
 * none.
 */
int client_memory_kills_since(struct view note, struct trace *t, struct err *e);
