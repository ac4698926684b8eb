#pragma once

/*
 * The state of `tidemark capture`, and how it saves its trace: at the end, or a part during the
 * capture.
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
    double last_progress; /* time when the last progress line was printed */
    struct resolver resolver;
    const char *guarded;      /* the folder that guard still has to restrict files to; NULL: none */
    struct process_root root; /* the client's, if it is not this process's */
    bool resolver_runs;
    struct output_folder *folder; /* NULL: a daemon's session, or output to a pipe */
    char *named_output;           /* the name that --name gave */
    char *journal_name;           /* NULL: no journal is kept */
    struct journal *journal;      /* NULL: not begun, or removed */
    int fifo;      /* the output if it is a FIFO, open until it is written; else -1 */
    uint8_t *rest; /* the last received bytes, for which the journal had no room; NULL: none */
    size_t rest_len;
    bool lacks;                  /* the store lacks received data, which the journal has */
    bool torn;                   /* the store must only be released (session_is_torn) */
    bool dropped;                /* flight recorder: the journal has more than the store */
    struct err cause;            /* the error that ended the session */
    struct journal_reader *kept; /* the journal, reopened for reading; NULL: not needed */
    char *part_output;           /* path of the current part if it is not the first */
    unsigned parts;              /* parts begun */
    uint32_t parts_saved;
    struct part_saver saver; /* saves the part before the current one */
    bool part_lost;          /* saving it failed: only the journal has that part */
    struct trace *trace;     /* NULL: no trace is open */
    struct monitor monitor;  /* the connection to a daemon that watches */
    bool watched; /* begun by a daemon, which may have ended: the exit status then matters */
    struct monitor_end ended;
    uint32_t version; /* file version to write */
    struct stop stop;
    unsigned stops_before;        /* requests to stop before the save began */
    bool facts_written;           /* facts of a part that could not be saved are in the store */
    struct saved_summary summary; /* of the whole capture */
    bool told_saving;             /* the effect of a second request to stop was printed */
    bool homeless;                /* the folder was removed: the output goes elsewhere */
    bool terminal;                /* stdout is a terminal */
};

/* Path of the current part. */
const char *capture_output(const struct capture *c);

/*
 * Whether the output folder was removed during the capture. The journal is gone then; the received
 * data is still in memory.
 */
bool capture_is_homeless(const struct capture *c);

/*
 * Changes the output to the folder of temporary files, the only other one that a guarded session
 * can write to. Only its user can read the file. Call it before the last save of a process, since
 * it changes the umask.
 */
int capture_go_elsewhere(struct capture *c, struct trace *t, struct err *e);

/* Whether the helper that resolves names runs or could be started. Prints an error if not. */
bool capture_start_resolver(struct capture *c);

/*
 * Saves a full trace and begins the next part. Returns 0 when it is saved, or 1 when a child
 * process is saving it. If memory does not suffice for two processes, this one saves.
 */
int capture_save_part(struct capture *c, struct err *e);

/* That child: 1 when it has ended, 0 if not yet (never with `wait`), -1 when it failed. */
int capture_part_saved(struct capture *c, bool wait, struct err *e);

/*
 * Saves what a flight recorder keeps, which is in the journal, to new files, while it goes on
 * recording. Returns as capture_save_part; until a child has ended, the journal must drop nothing.
 * No file is replaced. A failure is printed and does not end the capture.
 */
int capture_save_kept(struct capture *c, struct err *e);

/*
 * Waits until the part before the current one is saved. -1 if the save failed, so that only the
 * journal has that part, or at a second request to stop. The first request prints a message.
 */
int capture_settle_part(struct capture *c, struct err *e);

/*
 * Waits for the part before, then saves the last part, or the only one, with names and facts. The
 * first request to stop prints a message; -1 at the second one.
 */
int capture_save(struct capture *c, struct trace *t, struct err *e);
