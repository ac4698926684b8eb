#pragma once

/*
 * The captures of a daemon. Each runs in a process, so that a crash ends only one of them. It
 * writes its messages for users into a pipe, which the daemon prints, and answers the daemon's
 * questions over a channel (server/capture/monitor.h).
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/vec.h"
#include "server/capture/monitor.h"
#include "server/capture/output_folder.h"
#include "server/capture/saved_traces.h"
#include "server/daemon/child_commands.h"
#include "server/guard/sampler.h"
#include "server/net/discovery.h"

#define CAPTURE_NO_TARGET UINT32_MAX
#define CAPTURE_STOPPED "stop"

enum capture_state {
    CAPTURE_RUNNING,
    CAPTURE_SAVED,
    CAPTURE_FAILED,  /* nothing was saved; retried at a later announcement */
    CAPTURE_REFUSED, /* the client cannot be captured: not retried while it lives */
};

/* State of one --alert expression for one client. */
struct alert_state {
    bool firing;    /* it was reported */
    time_t since;   /* when it was reported */
    char now[160];  /* the figures of the last look, for people; may be cut */
    long long held; /* last time it was true; monotonic ns */
};

/* Consecutive failures to capture a client. */
struct capture_failure {
    char *words;     /* the last messages printed; NULL: no failed try */
    long long told;  /* last time they were printed; monotonic ns */
    long long pause; /* before they are printed again, ns */
};

struct capture {
    enum capture_state state;
    unsigned number;            /* in the order of start, from 1 */
    struct announcement client; /* completed from the welcome message */
    int32_t active_time;        /* highest announced; a lower value means another process */
    long long heard;            /* last sign of life of its client after the end; monotonic ns */
    bool superseded;            /* its client has a newer capture */
    bool replaced;              /* another process announces itself with its address */
    bool gone;                  /* a target: nothing accepts connections at its port */
    long long ended;            /* last time they were printed; monotonic ns */
    pid_t pid;
    int words; /* read end of its output pipe; -1 once closed */
    struct channel channel;
    json_t *hello;       /* description of the client; NULL: not connected yet */
    json_t *counters;    /* its newest counters; NULL: none yet */
    long long asked;     /* when its counters were last queried; monotonic ns */
    bool answered;       /* that query was answered */
    uint64_t told_limit; /* its memory bound as last sent to it */
    uint32_t target;     /* that it was found by; CAPTURE_NO_TARGET: by its announcement */
    time_t began;
    struct output_folder *folder; /* output folder; NULL: none, or the capture has ended */
    /*
     * Path of its trace, or of the first part; once that is saved and gone, of its last part. NULL:
     * not known yet.
     */
    char *output;
    struct saved_traces saved;
    bool first_saved; /* `output` is one of the saved traces */
    bool last_saved;  /* no more traces will be saved */
    bool homeless;    /* its output folder was removed */
    struct buf line;  /* the incomplete line of its output */
    char *last_words; /* its newest complete line, escaped for terminals */
    bool no_room;     /* it reported a full disk */
    struct capture_failure failure;
    struct buf held; /* lines not printed yet: they may repeat the previous try's */
    bool ending;     /* it was asked to end because of its disk usage */
    /*
     * Why its client is not captured again after the end: CAPTURE_STOPPED, or the limit that ended
     * it, as "max-size". NULL: it may be captured again.
     */
    const char *left_alone;
    uint64_t disk;              /* its disk usage in bytes */
    struct monitor_end end;     /* as it reported; nothing counts as saved before that */
    int status;                 /* exit status of `tidemark capture`; 128 + signal */
    uint64_t bytes;             /* size of `output`, once saved */
    struct alert_state *alerts; /* one per expression; NULL: no counters yet */
};

struct captures {
    VEC(struct capture *) list;
    unsigned running;
    unsigned begun;
    bool stopping;  /* all captures were asked to stop */
    unsigned files; /* saved, parts included; a capture's last one after its end */
    uint64_t bytes; /* size of these */
    const char *dir;
    struct sampler sampler;       /* runs if the daemon was started with privileges */
    struct output_folder *folder; /* folder of the newest capture; NULL: none yet */
    const char *name;             /* template of the traces' names */
    const struct child_commands *commands;
    const char *const *options; /* passed to each capture, NULL at the end */
    bool figures;               /* each keeps figures only */
    uint64_t memory_each;       /* initial memory bound of a capture; 0: none */
    /* Called with every answer to a query of the daemon. May be NULL. */
    void (*answered)(void *ctx, struct capture *one, const struct channel_message *m);
    void *answered_ctx;
    /* Called when a capture has new counters, or when its client is known. May be NULL. */
    void (*counted)(void *ctx, struct capture *one);
    void (*greeted)(void *ctx, struct capture *one);
    /* Called when a capture has saved a trace (its newest) and goes on. May be NULL. */
    void (*part_saved)(void *ctx, struct capture *one);
    void *counted_ctx;
};

void captures_release(struct captures *c);

/* The newest capture of that client, or NULL. A client found by probing has no process id yet. */
struct capture *captures_find(const struct captures *c, const struct announcement *a);

/*
 * Why the client of an ended capture is not captured again now, until another process takes its
 * place or a user requests it. NULL: it may be captured, or a newer capture exists.
 */
const char *captures_left_alone(const struct capture *one);

/* Starts a capture process for a client. NULL with `e` filled. */
struct capture *captures_begin(struct captures *c, const struct announcement *a, struct err *e);

/*
 * Reads a capture's output and calls `said` for each complete line. At the end of the output it
 * waits for the process and sets the capture's state.
 */
void captures_listen(struct captures *c, struct capture *one,
                     void (*said)(void *ctx, struct capture *one), void *ctx);

/*
 * Reads messages from its channel; an invalid message closes the channel but does not end the
 * capture.
 */
void captures_hear(struct captures *c, struct capture *one);

/*
 * Kills what ended sessions left running in their process groups, such as a child that saves a
 * part, which keeps the output pipe open. A compromised session may have kept it from ending.
 */
void captures_end_strays(const struct captures *c);

/* Queries the counters of each, once a second. */
void captures_ask_counters(const struct captures *c);

/*
 * Whether an ended capture's trace lacks bytes that arrived, or there is none: it was killed, it
 * could not write, or it kept what it did not decode in its journal. A client that was never there
 * lost nothing.
 */
bool captures_lost(const struct capture *one);

/* Asks a capture to stop and save. The next function asks it to save the current part and go on. */
void captures_stop_one(const struct capture *one);
int captures_save_now(struct capture *one);

/* The same without waiting for the client's answers, which may be many bytes. */
void captures_stop_quickly(const struct capture *one);

/*
 * Asks all running captures to stop and save; a second call makes them skip the client's answers.
 */
void captures_stop(struct captures *c);

/*
 * Forgets failures that were retried or ended some minutes ago, and all but the newest of the
 * others. Keeps those that mark present clients as not to be captured again.
 */
void captures_forget(struct captures *c);
