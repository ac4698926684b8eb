#ifndef TIDEMARK_SERVER_DAEMON_DAEMON_H
#define TIDEMARK_SERVER_DAEMON_DAEMON_H

/* The state of `tidemark daemon`: options, discovered clients, captures, displays. */

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

/* A session's minimum: the lowest --memory-limit of capture. */
#define DAEMON_SESSION_LEAST ((uint64_t)96 << 20)

/* Selects clients. Zero fields match all. */
struct client_filter {
    const char *name; /* substring of the program's name */
    uint16_t port;
    uint64_t pid;
    unsigned bits; /* prefix length in `address` */
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

/* A reader of the event stream, which gets the state once a second. */
struct event_stream {
    struct http_exchange *exchange;
    bool changes; /* it asked for changes and can apply them */
    bool in_step; /* it has received the previous event */
};

/* What the last event contained of a client. */
struct told_client {
    unsigned number;
    uint64_t hash; /* hash of its document */
};

/* The daemon's HTTP interface. */
struct daemon_http {
    const char *address;    /* NULL: no server */
    char *token;            /* NULL: none */
    const char *token_at;   /* --token if that is a file; else NULL */
    struct stat token_file; /* as of its last read */
    long long token_looked; /* monotonic ns */
    int dir;                /* the output folder */
    struct http_server *server;
    VEC(struct event_stream) streams;
    VEC(struct told_client) told; /* sorted by number */
    VEC(struct pending) pending;
    uint64_t reference; /* of the last question */
    long long pushed;   /* time of the last event; monotonic ns */
};

/* The documents that can be requested of a finished trace. */
enum report_kind { REPORT_PAGE, REPORT_SUMMARY };

struct report_page;
struct news;

enum log_level { LOG_INFO, LOG_WARNING, LOG_ERROR };

/* The destination of finished traces. */
struct daemon_sink {
    const char *place; /* the value of --sink; NULL: none */
    VEC(const char *) labels;
    VEC(char *) waiting;          /* names of traces in the folder */
    struct sent_files passed;     /* files that were sent or rejected, if files cannot be marked */
    struct stat now;              /* the file being sent */
    bool sending, look;           /* `look`: scan the folder for more */
    unsigned failed;              /* consecutive failures */
    long long not_before, looked; /* monotonic ns */
    uint64_t sent, failures;
};

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

struct daemon {
    const char *dir;
    uint16_t port;
    const char *name; /* template of the traces' names */
    struct client_filter filter;
    unsigned max_clients;
    uint64_t memory; /* bound for all sessions together; 0: none */
    bool drop_in;
    bool terminal;
    bool no_recover;
    const char *options[DAEMON_OPTIONS_MAX + 1]; /* passed to each capture, NULL at the end */
    unsigned option_count;
    struct container_options container; /* for recovered traces */
    uint32_t trace_version;             /* 0: chosen by the client's protocol */

    VEC(struct probe_target) targets;
    size_t scanned; /* index of the first target from --scan */
    VEC(const char *) scans;
    VEC(char *) hosts; /* texts of the targets */
    struct prober prober;

    const struct child_commands *commands;
    struct captures captures;
    struct stop stop;
    unsigned stops;             /* passed on to the captures */
    struct given_sockets given; /* from the service manager */
    int socket;
    bool full_told;    /* reported that no more clients can be captured */
    bool save_failed;  /* a trace could not be written */
    long long divided; /* when memory was last divided; monotonic ns */
    VEC(struct pollfd) polled;
    size_t captures_polled; /* number of their entries there */
    struct daemon_http http;

    struct jobs jobs;
    VEC(struct report_page *) reports; /* being made, or cached */
    unsigned report_makers;            /* processes */

    char *spool;                  /* --spool, also for journals; NULL: `dir` */
    uint64_t quota, total_quota;  /* bytes on disk; 0: no limit */
    uint64_t min_free;            /* bytes to keep free; 0: none */
    bool pause_when_full, paused; /* pause captures while less is free */
    bool disk_full;               /* no capture can begin */
    long long disk_looked;        /* monotonic ns */
    long long folder_looked;      /* the same for the output folder */
    bool folder_told;             /* reported that it is gone and cannot be made */
    long long recover_at; /* monotonic ns; 0: no session was killed since the last recovery */
    bool recovering;
    struct daemon_leftovers left;
    double stop_timeout; /* seconds for saving at the end; 0: no limit */

    bool log_json;
    const char *on_finish, *on_part, *on_alert; /* commands; NULL: none */
    const char *webhook;                        /* a URL; NULL: none */
    VEC(struct news *) news;                    /* waiting to be reported */
    unsigned tellers;                           /* processes that report events */
    uint64_t tell_failures;
    uint64_t tell_dropped; /* since the queue was reported full; 0: it has room */
    struct budgets alerts;
    double alert_pause; /* seconds an alert must be false before it is reported again */
    uint64_t alerts_told;
    struct daemon_sink sink;
};

/* ---- daemon_clients.c */

/* Starts probing the targets. */
int daemon_look(struct daemon *d, struct err *e);

/*
 * Starts a capture of the client at a numeric address. NULL with `e` filled when the limit is
 * reached or the client is already being captured.
 */
struct capture *daemon_capture(struct daemon *d, const char *address, uint16_t port, struct err *e);

/* Receives announcements and the prober's results, and starts captures of wanted clients. */
void daemon_take_clients(struct daemon *d);

/* Sends the prober which targets to skip now and which to watch for closed ports. */
void daemon_mark_busy(struct daemon *d);

/* ---- daemon_memory.c */

/* Divides the memory among the sessions, once a second, by what they hold and receive. */
void daemon_divide_memory(struct daemon *d);

/* ---- daemon_disk.c */

/* Enforces --quota, --total-quota and --min-free, once a second. */
void daemon_keep_disk(struct daemon *d);

/* Free bytes on the disk of the output folder; UINT64_MAX: unknown. */
uint64_t daemon_free_bytes(const struct daemon *d);

/* Resumes paused sessions, so that they can be saved at the end. */
void daemon_stop_pausing(struct daemon *d);

/* ---- daemon_recovery.c: recovers leftover journals, unless --no-recover is given */

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

/* ---- daemon_http.c */

int daemon_http_start(struct daemon *d, struct err *e);
void daemon_http_turn(struct daemon *d);
void daemon_http_release(struct daemon *d);

/* ---- daemon_api.c: JSON documents; new references, NULL when memory is short */

json_t *daemon_client_json(const struct daemon *d, const struct capture *one);
json_t *daemon_self_json(const struct daemon *d); /* the next one omits the clients */
json_t *daemon_status_json(const struct daemon *d);

/* ---- daemon_stream.c: server-sent events */

/* Answers with the stream. With "?changes", events list only the number of an unchanged client. */
void daemon_stream_begin(struct daemon *d, struct http_exchange *x);

/*
 * Sends an event once a second, even without changes, so that closed connections are noticed.
 * `now`: monotonic ns.
 */
void daemon_stream_turn(struct daemon *d, long long now);
void daemon_stream_over(struct daemon *d, const struct http_exchange *x);
void daemon_stream_release(struct daemon *d);

/* ---- daemon_metrics.c */

/* Writes metrics in the Prometheus text format 0.0.4. */
void daemon_metrics(const struct daemon *d, struct buf *out);

/* ---- daemon_folder.c */

/* As mkdir -p; ERR_OUTPUT also when the folder is not writable. */
int daemon_make_folder(const char *path, struct err *e);

/* At the start: removes unusable files that killed processes left in the folder. */
void daemon_tidy_folder(struct daemon *d);

/*
 * Once a second: makes the folder again if it was removed, and opens the one that has its name now.
 */
void daemon_keep_folder(struct daemon *d);

/* ---- daemon_files.c */

/* Whether both are the same, unchanged file. */
bool daemon_same_file(const struct stat *a, const struct stat *b);

/* The traces in the output folder. NULL with `e` filled. */
json_t *daemon_traces_json(const struct daemon *d, struct err *e);

/*
 * Opens a regular file of the folder for reading; -1 when there is none of that name. Files outside
 * the folder are never opened.
 */
int daemon_open_trace(const struct daemon *d, const char *name, struct stat *st);

/* Answers with one of the traces. */
void daemon_send_trace(const struct daemon *d, struct http_exchange *x, const char *name);

/* ---- daemon_reports.c */

/* Answers with the HTML report of a trace or its summary in JSON, as soon as it is made. */
void daemon_send_report(struct daemon *d, struct http_exchange *x, const char *name,
                        enum report_kind kind);
void daemon_reports_turn(struct daemon *d);
void daemon_reports_over(struct daemon *d, const struct http_exchange *x);
void daemon_reports_release(struct daemon *d);

/* ---- daemon_events.c */

/*
 * Logs an event as a one-line object with the keys schema, time, level, event, message, client if
 * there is one, and those of `more`, whose reference is taken over (NULL: none). A text log gets
 * only warnings and errors from this function.
 */
void daemon_log(struct daemon *d, enum log_level level, const char *event,
                const struct capture *one, json_t *more, const char *form, ...)
    __attribute__((format(printf, 6, 7)));

/*
 * Also reports it to --webhook and to --on-finish ("client.finished"), --on-part ("part.saved", for
 * the newest trace of `one`) or --on-alert (all other events).
 */
void daemon_tell(struct daemon *d, enum log_level level, const char *event,
                 const struct capture *one, json_t *more, const char *form, ...)
    __attribute__((format(printf, 6, 7)));

void daemon_log_error(struct daemon *d, const struct err *e);

/* Starts reporting queued events. Returns whether any are queued or being reported. */
void daemon_events_turn(struct daemon *d);
bool daemon_events_wait(const struct daemon *d);
void daemon_events_release(struct daemon *d);

/* ---- daemon_sinks.c */

bool daemon_set_sink(struct daemon *d, const char *value, struct err *e);
bool daemon_add_label(struct daemon *d, const char *value, struct err *e);

/* Queues the traces in the folder that were never sent. */
int daemon_sinks_start(struct daemon *d, struct err *e);
void daemon_sinks_look(struct daemon *d); /* scan for new traces */
void daemon_sinks_turn(struct daemon *d);
bool daemon_sinks_wait(const struct daemon *d); /* whether a trace is being sent or can be */
void daemon_sinks_release(struct daemon *d);

/* ---- daemon_alerts.c */

/* Adds an expression (analysis/questions/budget.h) on figures known while a client runs. */
bool daemon_add_alert(struct daemon *d, const char *text, struct err *e);

/* Called when a capture has new counters. `ctx` is the daemon. */
void daemon_counted(void *ctx, struct capture *one);

/* The expressions that are true for it now. */
json_t *daemon_alerts_json(const struct daemon *d, const struct capture *one);

/* ---- daemon_repeats.c: repeated failures are reported after growing pauses */

/* Whether its newest line is held back because its client's last try failed, too. */
bool daemon_hold(struct capture *one);

/* Prints the held lines: its client is connected, or its failure differs from the last one. */
void daemon_tell_held(struct daemon *d, struct capture *one);

/* A try has ended: whether its report is suppressed. Remembers what is reported. */
bool daemon_is_repeat(struct capture *one);

/* ---- daemon_screen.c */

/* Prints a line for each event where no screen can be drawn. `ctx` is the daemon. */
void daemon_said(void *ctx, struct capture *one);
void daemon_say(struct daemon *d, const struct capture *one, const char *line);
void daemon_say_left_alone(const struct daemon *d, const struct capture *one); /* if so */
void daemon_draw(const struct daemon *d);
void daemon_print_summary(const struct daemon *d);

#endif
