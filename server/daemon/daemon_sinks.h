#pragma once

/* Sends finished traces to the destination of --sink. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/vec.h"
#include "server/daemon/sent_files.h"

struct daemon;

/* Traces sent by one process. ClickHouse prefers few large inserts. */
#define SINK_TOGETHER 64u

/* The destination of finished traces. */
struct daemon_sink {
    const char *place; /* the value of --sink; NULL: none */
    VEC(const char *) labels;
    VEC(char *) waiting;      /* names of traces in the folder */
    struct sent_files passed; /* files that were sent or rejected, if files cannot be marked */
    /* The files being sent together: the first so many of `waiting`. */
    struct stat now[SINK_TOGETHER];
    size_t count;
    size_t alone;                 /* so many of the next ones are sent one by one */
    bool sending, look;           /* `look`: scan the folder for more */
    unsigned failed;              /* consecutive failures */
    long long not_before, looked; /* monotonic ns */
    uint64_t sent, failures;
};

bool daemon_set_sink(struct daemon *d, const char *value, struct err *e);
bool daemon_add_label(struct daemon *d, const char *value, struct err *e);

/* Queues the traces in the folder that were never sent. */
int daemon_sinks_start(struct daemon *d, struct err *e);
void daemon_sinks_look(struct daemon *d); /* scan for new traces */
void daemon_sinks_turn(struct daemon *d);
bool daemon_sinks_wait(const struct daemon *d); /* whether a trace is being sent or can be */
void daemon_sinks_release(struct daemon *d);
