#ifndef TIDEMARK_SERVER_DAEMON_CAPTURES_H
#define TIDEMARK_SERVER_DAEMON_CAPTURES_H

/*
 * The captures of a daemon: a process each, so that none can take another with it. Each writes its
 * words into a pipe, which the daemon shows, and answers what it is asked over a channel
 * (server/capture/monitor.h).
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
    CAPTURE_FAILED,  /* nothing was saved; tried again at a later announcement */
    CAPTURE_REFUSED, /* the client cannot be captured: not tried again while it lives */
};

/* Of one client and one expression of --alert. */
struct alert_state {
    bool firing;    /* it was told of */
    long long held; /* when it was true last; monotonic ns */
};

/* How the tries before ended, in a row, to capture a client. */
struct capture_failure {
    char *words;     /* the last ones that were told; NULL: it was not tried, or captured */
    long long told;  /* monotonic ns */
    long long pause; /* before the same is told again, ns */
};

struct capture {
    enum capture_state state;
    unsigned number;            /* in the order of beginning, from 1 */
    struct announcement client; /* what was not announced is known from its welcome on */
    int32_t active_time;        /* most that it announced: less is another program's */
    long long heard;            /* that its client is there, after its end; monotonic ns */
    bool superseded;            /* its client has a later one */
    bool replaced;              /* who announces itself as its client is another process */
    long long ended;            /* monotonic ns */
    pid_t pid;
    int words; /* read end of its pipe, -1 once it is closed */
    struct channel channel;
    json_t *hello;       /* who the client is; NULL: not connected yet */
    json_t *counters;    /* its newest answer to that question; NULL: none yet */
    long long asked;     /* for counters; monotonic ns */
    bool answered;       /* that question */
    uint64_t told_limit; /* what it may hold, as it was told last */
    uint32_t target;     /* that it was found by; CAPTURE_NO_TARGET: it announced itself */
    time_t began;
    struct output_folder *folder; /* that it writes into; NULL: there was none, or it has ended */
    /*
     * Where its trace goes, or the first part of it; once it is saved and that is gone, its last
     * part. NULL: not known yet.
     */
    char *output;
    struct saved_traces saved;
    bool first_saved; /* `output` is one of them */
    bool last_saved;  /* nothing more is to be saved */
    bool homeless;    /* its folder was removed */
    struct buf line;  /* of its words, the one that is not complete */
    char *last_words; /* its newest complete line, escaped for terminals */
    bool no_room;     /* it said that a disk is full */
    struct capture_failure failure;
    struct buf held; /* lines that are not told yet: they may be those of the try before */
    bool ending;     /* it was asked to end for what it takes on disk */
    /*
     * Why its client is left alone when it has ended: CAPTURE_STOPPED, or the limit that ended it,
     * as "max-size". NULL: it is not.
     */
    const char *left_alone;
    uint64_t disk;              /* bytes that it takes there */
    struct monitor_end end;     /* as it says itself; nothing was saved until it has said so */
    int status;                 /* exit status, of `tidemark capture`; 128 + signal */
    uint64_t bytes;             /* of `output`, once it is saved */
    struct alert_state *alerts; /* one for each expression; NULL: nothing was counted yet */
};

struct captures {
    VEC(struct capture *) list;
    unsigned running;
    unsigned begun;
    bool stopping;  /* all were asked to stop */
    unsigned files; /* saved: all parts; the last of a capture when that has ended */
    uint64_t bytes; /* of them */
    const char *dir;
    struct sampler sampler;       /* of a daemon that had privileges */
    struct output_folder *folder; /* that the newest capture began in; NULL: none yet */
    const char *name;             /* template of the traces' names */
    const struct child_commands *commands;
    const char *const *options; /* handed on to each capture, NULL at the end */
    uint64_t memory_each;       /* what a new one may hold, to begin with; 0: no bound */
    /* Told every answer to a question of ours. May be NULL. */
    void (*answered)(void *ctx, struct capture *one, const struct channel_message *m);
    void *answered_ctx;
    /* Told when the counters of one are new, or who its client is. May be NULL. */
    void (*counted)(void *ctx, struct capture *one);
    void (*greeted)(void *ctx, struct capture *one);
    /* Told when one has saved a trace, its newest, and goes on. May be NULL. */
    void (*part_saved)(void *ctx, struct capture *one);
    void *counted_ctx;
};

void captures_release(struct captures *c);

/* The newest capture of that client, or NULL. Who was found by looking has no process id yet. */
struct capture *captures_find(const struct captures *c, const struct announcement *a);

/*
 * Why the client of one that has ended is left alone now, until it is another process or somebody
 * says otherwise. NULL: it is captured again, or there is another capture of it.
 */
const char *captures_left_alone(const struct capture *one);

/* Begins to capture a client, in a process of its own. NULL with `e` filled. */
struct capture *captures_begin(struct captures *c, const struct announcement *a, struct err *e);

/*
 * Takes what a capture has said. `said` is called for each complete line. At the end of its words
 * the process is waited for, and its state set.
 */
void captures_listen(struct captures *c, struct capture *one,
                     void (*said)(void *ctx, struct capture *one), void *ctx);

/* Takes what it says over its channel; bytes that are none end the channel, not the capture. */
void captures_hear(struct captures *c, struct capture *one);

/*
 * What a process that has ended left running, its copy that saves a part, ends too: else its words
 * would not. A session that its client broke may have kept that from ending by itself.
 */
void captures_end_strays(const struct captures *c);

/* Asks each for its counters, once a second. */
void captures_ask_counters(const struct captures *c);

/* Asks one to stop and save, or to save what there is and go on in a next trace. */
void captures_stop_one(const struct capture *one);
int captures_save_now(struct capture *one);

/* The same as the first without a wait for answers of the client, which may be many bytes. */
void captures_stop_quickly(const struct capture *one);

/* Asks all that run to stop and save; asked again they do not wait for the client's answers. */
void captures_stop(struct captures *c);

/*
 * Forgets failures that were tried again or ended some minutes ago, and of the others all but the
 * newest; not those by which clients that are there are known to be left alone.
 */
void captures_forget(struct captures *c);

#endif
