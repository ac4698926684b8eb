#ifndef TIDEMARK_SERVER_DAEMON_DAEMON_H
#define TIDEMARK_SERVER_DAEMON_DAEMON_H

/* What `tidemark daemon` is made of: options, clients found, their captures, what is shown. */

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "analysis/questions/budgets.h"
#include "base/err.h"
#include "base/vec.h"
#include "server/capture/journal_read.h"
#include "server/daemon/captures.h"
#include "server/daemon/http.h"
#include "server/daemon/jobs.h"
#include "server/daemon/prober.h"
#include "server/daemon/sent_files.h"
#include "server/net/discovery.h"
#include "server/net/given_sockets.h"
#include "server/net/stop.h"
#include "trace/file/container.h"

#define DAEMON_OPTIONS_MAX 20

/* What a session needs at least: capture's least --memory-limit. */
#define DAEMON_SESSION_LEAST ((uint64_t)96 << 20)

/* Which clients are wanted. What is zero does not matter. */
struct client_filter {
    const char *name; /* is in the program's name */
    uint16_t port;
    uint64_t pid;
    unsigned bits; /* of `address` that count */
    int family;    /* of `address`; 0: all addresses */
    uint8_t address[16];
    bool local;
};

/* A request that waits for a session's answer. */
struct pending {
    struct http_exchange *exchange;
    unsigned client;    /* its number */
    uint64_t reference; /* of the question */
    long long deadline; /* monotonic ns */
};

/* Who hears once a second how things stand. */
struct event_stream {
    struct http_exchange *exchange;
    bool changes; /* it asked for these, and can put them together */
    bool in_step; /* and has got the event before */
};

/* What the last event told of a client. */
struct told_client {
    unsigned number;
    uint64_t hash; /* of its document */
};

/* What others see of the daemon, and ask of it. */
struct daemon_http {
    const char *address;    /* NULL: there is none */
    char *token;            /* NULL: none */
    const char *token_at;   /* --token, where that is a file; else NULL */
    struct stat token_file; /* as it was when it was read last */
    long long token_looked; /* monotonic ns */
    int dir;                /* the output folder */
    struct http_server *server;
    VEC(struct event_stream) streams;
    VEC(struct told_client) told; /* in the order of their numbers */
    VEC(struct pending) pending;
    uint64_t reference; /* of the last question */
    long long pushed;   /* the last event; monotonic ns */
};

/* What is made of a finished trace for who asks. */
enum report_kind { REPORT_PAGE, REPORT_SUMMARY };

struct report_page;
struct news;

enum log_level { LOG_INFO, LOG_WARNING, LOG_ERROR };

/* Where finished traces go, too. */
struct daemon_sink {
    const char *place; /* the value of --sink; NULL: there is none */
    VEC(const char *) labels;
    VEC(char *) waiting;          /* names of traces in the folder */
    struct sent_files passed;     /* sent, or of no use, where the file cannot be marked */
    struct stat now;              /* the one that is being sent */
    bool sending, look;           /* `look`: there may be more of them */
    unsigned failed;              /* in a row */
    long long not_before, looked; /* monotonic ns */
    uint64_t sent, failures;
};

/* A journal that nobody writes. */
struct leftover {
    struct journal_left is;
    bool tried;           /* by the recovery that runs */
    unsigned failures;    /* to recover it, in a row */
    long long not_before; /* the next time, after these; monotonic ns */
    uint64_t room;        /* or when so many bytes are free */
};

struct daemon_leftovers {
    VEC(struct leftover) list; /* by id */
    long long looked, began;   /* monotonic ns */
    long long or_with;         /* from here on more room is a reason */
    bool had_new;              /* the last recovery was of those that were not tried before */
    bool low_told;             /* that they wait for --min-free */
    unsigned unbegun;          /* no process could be begun; times in a row that it was told */
    long long tell_at;         /* the next time */
};

struct daemon {
    const char *dir;
    uint16_t port;
    const char *name; /* template of the traces' names */
    struct client_filter filter;
    unsigned max_clients;
    uint64_t memory; /* what all sessions together may hold; 0: no bound */
    bool drop_in;
    bool terminal;
    bool no_recover;
    const char *options[DAEMON_OPTIONS_MAX + 1]; /* for each capture, NULL at the end */
    unsigned option_count;
    struct container_options container; /* for what is recovered */
    uint32_t trace_version;             /* 0: the client's generation */

    VEC(struct probe_target) targets;
    size_t scanned; /* index of the first target that a --scan made */
    VEC(const char *) scans;
    VEC(char *) hosts; /* texts of the targets */
    struct prober prober;

    const struct child_commands *commands;
    struct captures captures;
    struct stop stop;
    unsigned stops;             /* passed on to the captures */
    struct given_sockets given; /* by who started us */
    int socket;
    bool full_told;    /* that no more clients can be captured now */
    bool save_failed;  /* a trace could not be written */
    long long divided; /* the memory, last; monotonic ns */
    VEC(struct pollfd) polled;
    size_t captures_polled; /* how many of them have an entry there */
    struct daemon_http http;

    struct jobs jobs;
    VEC(struct report_page *) reports; /* being made, and those that are kept */
    unsigned report_makers;            /* processes */

    char *spool;                  /* --spool, where journals are then, too; NULL: in `dir` */
    uint64_t quota, total_quota;  /* bytes on disk; 0: no bound */
    uint64_t min_free;            /* bytes that stay free; 0: none */
    bool pause_when_full, paused; /* captures, while there is less */
    bool disk_full;               /* no more can begin */
    long long disk_looked;        /* monotonic ns */
    long long folder_looked;      /* the same for the output folder itself */
    bool folder_told;             /* that it is gone, and cannot be made */
    long long recover_at;         /* monotonic ns; 0: nothing was left since the last time */
    bool recovering;
    struct daemon_leftovers left;
    double stop_timeout; /* seconds for saving at the end; 0: no bound */

    bool log_json;
    const char *on_finish, *on_part, *on_alert; /* commands; NULL: none */
    const char *webhook;                        /* a URL; NULL: none */
    VEC(struct news *) news;                    /* to be told */
    unsigned tellers;                           /* processes that tell */
    uint64_t tell_failures;
    uint64_t tell_dropped; /* since there were too many, which was said; 0 when there is room */
    struct budgets alerts;
    double alert_pause; /* seconds that an alert must be over before it is told again */
    uint64_t alerts_told;
    struct daemon_sink sink;
};

/* ---- daemon_clients.c */

/* Begins to look for the targets. */
int daemon_look(struct daemon *d, struct err *e);

/*
 * Begins to capture who listens at that address, a number, however it was found. NULL with `e`
 * filled when there is no room, or it is being captured.
 */
struct capture *daemon_capture(struct daemon *d, const char *address, uint16_t port, struct err *e);

/* Takes the announcements that have come, and what the prober found; captures what is wanted. */
void daemon_take_clients(struct daemon *d);

/* Which targets need not be tried now, and of which it matters whether they are gone. */
void daemon_mark_busy(struct daemon *d);

/* ---- daemon_memory.c */

/* Shares the memory out among the sessions, once a second, by what they hold and receive. */
void daemon_divide_memory(struct daemon *d);

/* ---- daemon_disk.c */

/* Keeps --quota, --total-quota and --min-free, once a second. */
void daemon_keep_disk(struct daemon *d);

/* What can be written yet on the disk of the output folder; UINT64_MAX: nobody knows. */
uint64_t daemon_free_bytes(const struct daemon *d);

/* For the end: paused sessions go on, so that they can be saved. */
void daemon_stop_pausing(struct daemon *d);

/* ---- daemon_recovery.c: journals that were left become traces, unless --no-recover says no */

/* All that there are, before anything begins. */
void daemon_recover(struct daemon *d);

/* A session was killed: what it left, in a process that the daemon does not wait for. */
void daemon_recover_soon(struct daemon *d);

/*
 * Begins that process when it is time: also for what a full disk left, and sessions of an earlier
 * daemon, for which it looks now and then.
 */
void daemon_recovery_turn(struct daemon *d);
void daemon_recovery_release(struct daemon *d);

/* ---- daemon_http.c */

int daemon_http_start(struct daemon *d, struct err *e);
void daemon_http_turn(struct daemon *d);
void daemon_http_release(struct daemon *d);

/* ---- daemon_api.c: documents; new references, NULL when memory is short */

json_t *daemon_client_json(const struct daemon *d, const struct capture *one);
json_t *daemon_self_json(const struct daemon *d); /* the next without its clients */
json_t *daemon_status_json(const struct daemon *d);

/* ---- daemon_stream.c: server-sent events */

/* Answers with the stream; with "?changes" events tell of clients that are as before the number. */
void daemon_stream_begin(struct daemon *d, struct http_exchange *x);

/* Once a second, and also when nothing changes: so that who went away is found. `now`: monotonic.
 */
void daemon_stream_turn(struct daemon *d, long long now);
void daemon_stream_over(struct daemon *d, const struct http_exchange *x);
void daemon_stream_release(struct daemon *d);

/* ---- daemon_metrics.c */

/* As Prometheus reads them: text format 0.0.4. */
void daemon_metrics(const struct daemon *d, struct buf *out);

/* ---- daemon_folder.c */

/* As mkdir -p; ERR_OUTPUT also when nothing can be written into it. */
int daemon_make_folder(const char *path, struct err *e);

/* What killed processes left in it that is of no use to anybody goes. For the start. */
void daemon_tidy_folder(struct daemon *d);

/* Makes it again when it was removed, and turns to the one that has its name now, once a second. */
void daemon_keep_folder(struct daemon *d);

/* ---- daemon_files.c */

/* One file, as it was. */
bool daemon_same_file(const struct stat *a, const struct stat *b);

/* The traces in the output folder. NULL with `e` filled. */
json_t *daemon_traces_json(const struct daemon *d, struct err *e);

/*
 * A regular file of the folder itself, for reading; -1 when there is none of that name. Nothing
 * outside of the folder is ever opened.
 */
int daemon_open_trace(const struct daemon *d, const char *name, struct stat *st);

/* Answers with one of them. */
void daemon_send_trace(const struct daemon *d, struct http_exchange *x, const char *name);

/* ---- daemon_reports.c */

/* Answers, at once or when it is made, with the page of a trace or its summary in JSON. */
void daemon_send_report(struct daemon *d, struct http_exchange *x, const char *name,
                        enum report_kind kind);
void daemon_reports_turn(struct daemon *d);
void daemon_reports_over(struct daemon *d, const struct http_exchange *x);
void daemon_reports_release(struct daemon *d);

/* ---- daemon_events.c */

/*
 * What happened, for the log: an object in one line with the keys schema, time, level, event,
 * message, client when there is one, and those of `more`, whose reference is taken over (NULL:
 * none). In a log of text only warnings and errors are told this way.
 */
void daemon_log(struct daemon *d, enum log_level level, const char *event,
                const struct capture *one, json_t *more, const char *form, ...)
    __attribute__((format(printf, 6, 7)));

/*
 * The same also for --on-finish ("client.finished"), --on-part ("part.saved", of the newest trace
 * that `one` has saved), --on-alert (the others) and --webhook.
 */
void daemon_tell(struct daemon *d, enum log_level level, const char *event,
                 const struct capture *one, json_t *more, const char *form, ...)
    __attribute__((format(printf, 6, 7)));

void daemon_log_error(struct daemon *d, const struct err *e);

/* Begins to tell what waits; whether anything still waits or is being told. */
void daemon_events_turn(struct daemon *d);
bool daemon_events_wait(const struct daemon *d);
void daemon_events_release(struct daemon *d);

/* ---- daemon_sinks.c */

bool daemon_set_sink(struct daemon *d, const char *value, struct err *e);
bool daemon_add_label(struct daemon *d, const char *value, struct err *e);

/* Begins with what lies in the folder and was never sent. */
int daemon_sinks_start(struct daemon *d, struct err *e);
void daemon_sinks_look(struct daemon *d); /* there may be a new trace */
void daemon_sinks_turn(struct daemon *d);
bool daemon_sinks_wait(const struct daemon *d); /* a trace is being sent, or can be */
void daemon_sinks_release(struct daemon *d);

/* ---- daemon_alerts.c */

/* An expression (analysis/questions/budget.h) on what can be known while a client runs. */
bool daemon_add_alert(struct daemon *d, const char *text, struct err *e);

/* A capture has new counters. `ctx` is the daemon. */
void daemon_counted(void *ctx, struct capture *one);

/* The expressions that are true of it now. */
json_t *daemon_alerts_json(const struct daemon *d, const struct capture *one);

/* ---- daemon_repeats.c: what fails again as it failed before is told again after growing pauses */

/* Whether its newest line is not to be told yet, since its client's last try failed: it is kept. */
bool daemon_hold(struct capture *one);

/* Tells what was kept. Its client is connected, or something else is wrong with it than before. */
void daemon_tell_held(struct daemon *d, struct capture *one);

/* A try has ended: whether nothing is to be told of it. Takes note of what is told. */
bool daemon_is_repeat(struct capture *one);

/* ---- daemon_screen.c */

/* A line for each thing that happens, where no screen can be drawn. `ctx` is the daemon. */
void daemon_said(void *ctx, struct capture *one);
void daemon_say(struct daemon *d, const struct capture *one, const char *line);
void daemon_say_left_alone(const struct daemon *d, const struct capture *one); /* if it is */
void daemon_draw(const struct daemon *d);
void daemon_print_summary(const struct daemon *d);

#endif
