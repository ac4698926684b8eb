#ifndef TIDEMARK_SERVER_CAPTURE_CAPTURE_SAVE_H
#define TIDEMARK_SERVER_CAPTURE_CAPTURE_SAVE_H

/*
 * What `tidemark capture` holds on to, and how it saves its trace: at the end, or a part while it
 * goes on.
 */

#include "server/capture/capture_options.h"
#include "server/capture/journal_read.h"
#include "server/capture/monitor.h"
#include "server/capture/output_folder.h"
#include "server/capture/part_saver.h"
#include "server/capture/stored_summary.h"
#include "trace/store/store.h"

struct capture {
    struct capture_options o;
    struct memory_limit memory;
    double last_progress; /* when the last one was printed */
    struct resolver resolver;
    const char *guarded;      /* the folder that files are still to be kept to; NULL: nothing is */
    struct process_root root; /* of the client, if it is another one than ours */
    bool resolver_runs;
    struct output_folder *folder; /* NULL: of a session, which works in its own, or of a pipe */
    char *named_output;           /* by --name */
    char *journal_name;           /* NULL: none is kept */
    struct journal *journal;      /* NULL: not begun, or removed */
    int fifo;      /* the output when it is one, held open until it is written; else -1 */
    uint8_t *rest; /* what arrived last and the journal had no room for; NULL: nothing */
    size_t rest_len;
    bool lacks;                  /* the store had no room: the journal has more than it */
    bool torn;                   /* the store must only be released (session_is_torn) */
    bool dropped;                /* a flight recorder: the journal has more than the store */
    struct err cause;            /* of an end that was an error */
    struct journal_reader *kept; /* the journal, read again; NULL: it was not needed */
    char *part_output;           /* of the part being recorded, when it is not the first */
    unsigned parts;              /* begun */
    uint32_t parts_saved;
    struct part_saver saver; /* of the part before the one at hand */
    bool part_lost;          /* it failed: only the journal has that part */
    struct trace *trace;     /* NULL: none is at hand */
    struct monitor monitor;  /* a daemon that watches */
    bool watched;            /* a daemon began it, which may be gone: its exit status is ours */
    struct monitor_end ended;
    uint32_t version; /* to write */
    struct stop stop;
    unsigned stops_before;        /* requests to stop that came before saving began */
    bool facts_written;           /* a part's, which could not be saved */
    struct saved_summary summary; /* of the whole */
    bool told_saving;             /* what a further one would do */
    bool homeless;                /* the folder was removed: the output goes elsewhere */
    bool terminal;                /* stdout is one */
};

/* Where the part at hand goes. */
const char *capture_output(const struct capture *c);

/*
 * Whether the output folder was removed while the capture recorded. The journal is gone then; what
 * arrived is still in memory.
 */
bool capture_is_homeless(const struct capture *c);

/*
 * Changes the output to the folder of temporary files, the only other one that a guarded session
 * can write to. Only its user can read the file. To be called before the last save of a process,
 * since it changes the umask.
 */
int capture_go_elsewhere(struct capture *c, struct trace *t, struct err *e);

/* Whether the helper that finds names runs, or could be started; says why not. */
bool capture_start_resolver(struct capture *c);

/*
 * The session's calls (struct session_limits) when a trace can hold no more: saves it in a process
 * of its own, or here when there is no room for two; and what became of that.
 */
int capture_save_part(void *ctx, struct err *e);
int capture_part_saved(void *ctx, bool wait, struct err *e);

/*
 * The same for a flight recorder that is asked for what it keeps: into further files, none of which
 * is replaced, while it goes on. That it could not be saved is told and ends nothing.
 */
int capture_save_kept(void *ctx, struct err *e);

/*
 * Waits for the part before the one at hand, if it is still being saved. -1 when it is not, and
 * only the journal has it. A request to stop is answered, a second one obeyed: -1, too.
 */
int capture_settle_part(struct capture *c, struct err *e);

/*
 * The last part, or the only one, with names and facts, when the one before is saved. A request to
 * stop is answered, a second one obeyed: -1.
 */
int capture_save(struct capture *c, struct trace *t, struct err *e);

#endif
