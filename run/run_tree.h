#ifndef TIDEMARK_RUN_RUN_TREE_H
#define TIDEMARK_RUN_RUN_TREE_H

/*
 * The processes of one `tidemark run`: their recordings are read while they go on, as far as there
 * is a processor to spare, and become traces when they end. The root's trace is the main one; what
 * it executed before it became its last program counts as such, too. Children that lived shorter
 * than wished share one trace. Children that recorded nothing, such as those that execute another
 * program at once, leave none.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/vec.h"
#include "run/collector.h"
#include "run/run_offers.h"
#include "run/run_options.h"
#include "run/run_record.h"
#include "run/run_trace.h"
#include "run/run_unseen.h"

/* One program in one process. */
struct run_process {
    struct collected *collected;
    struct run_record *record; /* NULL: not begun to be read */
    struct recording *recording;
    struct run_listen *listen; /* of a child that is offered, else NULL */
    size_t number;             /* in run_tree.unseen */
    bool finished;             /* all is in `record` */
    bool silent;               /* it never got to record anything */
    bool stopped;              /* --seconds have passed: it records no more */
    unsigned told;             /* of the changes of `paused` */
};

/* Children of which nothing was recorded, so that they leave no trace. */
struct run_idle {
    uint64_t count;
    struct buf why; /* of the first, or the first of which more shows: a sentence */
    bool told;      /* more shows */
};

struct run_tree {
    const struct run_options *options;
    const char *output; /* of the root; NULL: not known before it runs */
    const char *spool;
    struct run_traces *traces;
    struct run_offers *offers; /* to servers */
    struct collector *collector;
    VEC(struct run_process) list;
    VEC(pid_t) saved; /* children of which a trace was written, one for each */
    struct run_record *folded;
    struct run_unseen unseen; /* what ran and was not recorded */
    struct run_idle idle,
        folded_idle;  /* the latter are idle where the others of `folded` are, too */
    bool stop;        /* --seconds have passed */
    bool paused;      /* allocations are not to be recorded at the moment */
    unsigned changes; /* of that */
    bool root_ended;
    uint64_t forks;     /* of processes that ended: children that come, or came */
    uint64_t came;      /* of these */
    bool keep;          /* a trace could not be saved: recordings stay */
    bool ends;          /* this program does */
    uint64_t children;  /* that are in a trace */
    uint64_t clients;   /* Tracy clients of children: they are in none */
    struct err failure; /* the first thing that went wrong with a trace */
};

/* Takes note of processes that came, and reads on. `spare`: as much as there is. Returns events. */
uint64_t run_tree_step(struct run_tree *t, bool spare);

/* Pauses the recording of allocations in all processes, and in those that come, or goes on. */
void run_tree_pause(struct run_tree *t, bool paused);

/* Whether the root's recording has ended. */
bool run_tree_root_is_gone(const struct run_tree *t);

/* Processes that have not ended, but for the root. */
size_t run_tree_alive(const struct run_tree *t);

/* Saves what there is of children that go on. */
void run_tree_save_alive(struct run_tree *t);

/* The root's last program that recorded anything, read to its end; NULL when there is none. */
struct run_process *run_tree_root(struct run_tree *t);

/* The root's last program, recorded or not; NULL when none ever loaded the library. */
const struct run_process *run_tree_last(const struct run_tree *t);

/* Saves the trace of the short ones, if they recorded anything. */
void run_tree_save_folded(struct run_tree *t);

/* "x.tracy" → "x.WHAT.tracy", allocated. */
char *run_tree_name(const char *output, const char *what);

void run_tree_release(struct run_tree *t);

#endif
