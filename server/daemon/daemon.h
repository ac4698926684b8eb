#pragma once

/* The state of `tidemark daemon`: options, discovered clients, captures, displays. */

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "analysis/questions/budgets.h"
#include "base/err.h"
#include "base/vec.h"
#include "server/daemon/captures.h"
#include "server/daemon/daemon_clients.h"
#include "server/daemon/daemon_http.h"
#include "server/daemon/daemon_recovery.h"
#include "server/daemon/daemon_sinks.h"
#include "server/daemon/jobs.h"
#include "server/daemon/prober.h"
#include "server/net/discovery.h"
#include "server/net/given_sockets.h"
#include "server/net/stop.h"
#include "trace/file/container.h"

struct news;
struct report_page;

#define DAEMON_OPTIONS_MAX 24

/* A session's minimum: the lowest --memory-limit of capture. */
#define DAEMON_SESSION_LEAST ((uint64_t)96 << 20)

/* Bytes, as of the last look. */
struct daemon_disk {
    uint64_t size, free; /* of the output folder's disk; 0: not known */
    uint64_t held;       /* by what --total-quota counts; without that, by the running captures */
};

struct daemon {
    const char *dir;
    uint16_t port;
    const char *name; /* template of the traces' names */
    struct client_filter filter;
    unsigned max_clients;
    uint64_t memory;   /* bound for all sessions together; 0: none */
    bool memory_given; /* else it is the control group's */
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
    uint64_t reports_dropped;          /* for want of room */

    char *spool;                  /* --spool, also for journals; NULL: `dir` */
    uint64_t quota, total_quota;  /* bytes on disk; 0: no limit */
    uint64_t min_free;            /* bytes to keep free; 0: none */
    bool pause_when_full, paused; /* pause captures while less is free */
    bool disk_full;               /* no capture can begin */
    struct daemon_disk disk;
    long long disk_looked;   /* monotonic ns */
    long long folder_looked; /* the same for the output folder */
    bool folder_told;        /* reported that it is gone and cannot be made */
    long long recover_at;    /* monotonic ns; 0: no session was killed since the last recovery */
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

/* The defaults. The caller fills in the options and the texts that they refer to. */
void daemon_init(struct daemon *d, const struct child_commands *commands, bool drop_in);

/*
 * Captures clients until a signal, then until all captures are saved. Prints and logs errors.
 * Returns the exit status.
 */
int daemon_run(struct daemon *d);
void daemon_release(struct daemon *d);
