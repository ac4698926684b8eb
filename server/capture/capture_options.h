#pragma once

/* Options of `tidemark capture` and of the drop-in for tracy-capture. */

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"
#include "naming/resolve_trace.h"
#include "server/capture/session.h"
#include "server/net/connect_client.h"
#include "trace/file/container.h"

/* The side that resolves the names of functions. */
enum namer { NAMER_DEFAULT, NAMER_CLIENT, NAMER_SERVER, NAMER_BOTH };

struct capture_options {
    struct connect_options connect;
    const char *output; /* a folder if `name` is set */
    const char *name; /* template of the trace's name (trace_name.h); NULL: use `output` as it is */
    bool replace;
    struct session_options session;
    bool summary;
    bool drop_in;          /* called by an official tool's name: use its exit codes and its words */
    bool memory_asked;     /* session.memory_hz is not the default */
    double seconds;        /* time limit; < 0: none */
    double progress;       /* seconds between progress lines; < 0: on a terminal only */
    bool quiet;            /* no line on a terminal */
    double rotate_seconds; /* length of a part; 0: no limit */
    bool keep_last;        /* flight recorder */
    uint64_t rotate_bytes; /* received bytes per part; 0: no limit */
    uint64_t max_bytes;    /* limit of received bytes; 0: none */
    uint64_t memory_limit; /* stop when this process holds more bytes; 0: no limit */
    uint64_t memory_bound; /* limit of its anonymous memory, kept by spilling; 0: none */
    uint32_t trace_version; /* 0: chosen by the client's protocol */
    struct container_options container;
    VEC(const char *) unwanted; /* preloaded libraries to restart without */
    enum namer namer;
    struct resolve_options resolving;
    char *spool_dir;
    bool spool_given; /* --spool was given */
    bool no_journal;
    struct journal_options journaling;
    size_t buffer; /* 0: the store's default */
};
