#pragma once

/* Recovers leftover journals, unless --no-recover is given. */

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"
#include "server/capture/journal_read.h"

struct daemon;

/* A journal that no process writes. */
struct leftover {
    struct journal_left is;
    bool tried;           /* by the current recovery */
    unsigned failures;    /* consecutive failures to recover it */
    long long not_before; /* earliest time of the next try; monotonic ns */
    uint64_t room;        /* or free bytes that allow an earlier try */
};

struct daemon_leftovers {
    VEC(struct leftover) list; /* sorted by id */
    long long looked, began;   /* monotonic ns */
    long long or_with;         /* from then on more free space allows a retry */
    bool had_new;              /* the last recovery was of new journals */
    bool low_told;             /* the wait for --min-free was reported */
    unsigned unbegun;          /* failures to start the process, as last reported */
    long long tell_at;         /* when to report the next one */
};

/* Recovers all of them before the daemon serves. */
void daemon_recover(struct daemon *d);

/* A session was killed: schedules a recovery of its journal in another process. */
void daemon_recover_soon(struct daemon *d);

/*
 * Starts that process when it is due: also for journals that a full disk left and for those of an
 * earlier daemon, which it scans for regularly.
 */
void daemon_recovery_turn(struct daemon *d);
void daemon_recovery_release(struct daemon *d);
