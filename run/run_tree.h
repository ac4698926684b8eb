#pragma once

/*
 * The processes of one `tidemark run`. Their recordings are read while they run, as far as CPU time
 * permits, and become traces when they end. The root's trace is the main one; it includes the
 * programs that the root executed before its last one. Short-lived children share one trace.
 * Children that recorded nothing, such as those that execute another program at once, leave none.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/vec.h"
#include "naming/generated_files.h"
#include "run/collector.h"
#include "run/run_client.h"
#include "run/run_memory.h"
#include "run/run_offers.h"
#include "run/run_options.h"
#include "run/run_record.h"
#include "run/run_trace.h"
#include "run/run_unseen.h"

/* One program in one process. */
struct run_process {
    struct collected *collected;
    struct run_record *record; /* NULL: reading has not begun */
    struct recording *recording;
    struct run_memory *memory; /* read while it lives; NULL: nothing was read yet */
    struct generated_files generated;
    struct run_client client;
    struct run_record *joined; /* with the client's data; NULL: `record` is the trace */
    struct run_listen *listen; /* of a child that is offered to servers; else NULL */
    size_t number;             /* in run_tree.unseen */
    bool finished;             /* `record` has all of it */
    bool silent;               /* it ended before it recorded anything */
    bool stopped;              /* --seconds have passed: its recording ended */
    unsigned told;             /* changes of `paused` sent to it */
};

/* Children without recorded events, which leave no trace. */
struct run_idle {
    uint64_t count;
    struct buf why; /* a sentence on the first one, or the first one whose reason is known */
    bool told;      /* the reason is known */
};

struct run_tree {
    const struct run_options *options;
    const char *output; /* of the root; NULL: named once it runs */
    const char *spool;
    struct run_traces *traces;
    struct run_offers *offers; /* to servers */
    struct collector *collector;
    VEC(struct run_process) list;
    VEC(pid_t) saved; /* children with separate traces */
    struct run_record *folded;
    struct memory_rounds memory;
    struct gpu_driver gpu;             /* of --gpu */
    struct run_unseen unseen;          /* programs that ran and were not recorded */
    struct run_idle idle, folded_idle; /* folded_idle: their siblings are in `folded` */
    bool stop;                         /* --seconds have passed */
    bool paused;                       /* allocations are not recorded at present */
    unsigned changes;                  /* number of changes of `paused` */
    bool joins;                        /* the programs' Tracy clients are recorded, too */
    bool root_ended;
    uint64_t forks;     /* of ended processes: children that are to connect */
    uint64_t came;      /* children that have connected */
    bool keep;          /* a trace could not be saved: keep the recordings */
    bool ends;          /* this program is about to exit */
    uint64_t children;  /* that are in a trace */
    uint64_t kills;     /* by the OOM killer, in the root's cgroup while it ran */
    uint64_t limit;     /* bytes: that of this cgroup; 0: none */
    struct err failure; /* the first error of a trace */
};

/* Accepts new processes and reads on. `spare`: without a limit. Returns the number of events. */
uint64_t run_tree_step(struct run_tree *t, bool spare);

/* Reads the memory of recorded processes, if that is due, for the plots of their traces. */
void run_tree_read_memory(struct run_tree *t);

/* Looks at the pages of all processes that are recorded now. Returns of how many it could. */
size_t run_tree_look(struct run_tree *t, enum look_reason reason);

/* Pauses or resumes the recording of allocations in all processes, new ones included. */
void run_tree_pause(struct run_tree *t, bool paused);

/* Whether the root's recording has ended. */
bool run_tree_root_is_gone(const struct run_tree *t);

/*
 * Whether there may be a Tracy client to which no server is connected yet, and whose program may
 * end soon.
 */
bool run_tree_awaits_client(const struct run_tree *t);

/* The number of processes that have not ended, without the root. */
size_t run_tree_alive(const struct run_tree *t);

/* Saves the traces of children that are still running. */
void run_tree_save_alive(struct run_tree *t);

/* The root's last program that recorded anything, read to its end; NULL when there is none. */
struct run_process *run_tree_root(struct run_tree *t);

/* The root's last program, recorded or not; NULL when none loaded the library. */
const struct run_process *run_tree_last(const struct run_tree *t);

/* Saves the shared trace of short-lived children, if it has events. */
void run_tree_save_folded(struct run_tree *t);

void run_tree_release(struct run_tree *t);
