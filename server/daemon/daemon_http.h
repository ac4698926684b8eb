#pragma once

/* The daemon's HTTP interface: routes, documents, the event stream, files and reports. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/vec.h"
#include "server/daemon/http.h"

struct capture;
struct daemon;

/* A request that waits for a session's answer. */
struct pending {
    struct http_exchange *exchange;
    unsigned client;    /* its number */
    bool report;        /* it asks for the data of a report */
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

#define REPORTS_MAX 16u /* being made, or cached */

/* Answers with the HTML report of a trace or its summary in JSON, as soon as it is made. */
void daemon_send_report(struct daemon *d, struct http_exchange *x, const char *name,
                        enum report_kind kind);
void daemon_reports_turn(struct daemon *d);
void daemon_reports_over(struct daemon *d, const struct http_exchange *x);
void daemon_reports_release(struct daemon *d);
