#ifndef TIDEMARK_SERVER_CAPTURE_CAPTURE_OPTIONS_H
#define TIDEMARK_SERVER_CAPTURE_CAPTURE_OPTIONS_H

/* What `tidemark capture` and the drop-in for tracy-capture are asked for. */

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"
#include "naming/resolve_trace.h"
#include "server/capture/session.h"
#include "server/net/connect_client.h"
#include "trace/file/container.h"

/* Who finds the names of functions. */
enum namer { NAMER_DEFAULT, NAMER_CLIENT, NAMER_SERVER, NAMER_BOTH };

struct capture_options {
    struct connect_options connect;
    const char *output; /* with `name` a folder */
    const char *name;   /* template of the trace's name (trace_name.h); NULL: `output` is it */
    bool replace;
    struct session_options session;
    bool summary;
    bool drop_in;           /* called by an official tool's name: its exit codes, its words */
    double seconds;         /* to stop after; < 0: never */
    double progress;        /* seconds between progress lines; < 0: on a terminal only */
    double rotate_seconds;  /* between the beginnings of parts; 0: not by time */
    bool keep_last;         /* a flight recorder */
    uint64_t rotate_bytes;  /* received for each part; 0: not by size */
    uint64_t max_bytes;     /* received; 0: no limit */
    uint64_t memory_limit;  /* bytes of this process to stop at; 0: none */
    uint64_t memory_bound;  /* bytes of its anonymous memory, kept by spilling; 0: none */
    uint32_t trace_version; /* 0: by the client's protocol */
    struct container_options container;
    VEC(const char *) unwanted; /* preloaded libraries to start again without */
    enum namer namer;
    struct resolve_options resolving;
    char *spool_dir;
    bool spool_given; /* by --spool */
    bool no_journal;
    struct journal_options journaling;
    size_t buffer; /* 0: the store's default */
};

#endif
