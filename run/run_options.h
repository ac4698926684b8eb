#ifndef TIDEMARK_RUN_RUN_OPTIONS_H
#define TIDEMARK_RUN_RUN_OPTIONS_H

/* What `tidemark run` is asked for. */

#include <stdbool.h>
#include <stdint.h>

#include "analysis/questions/budgets.h"
#include "base/err.h"
#include "base/vec.h"
#include "naming/resolver.h"
#include "protocol/wire_version.h"
#include "trace/file/container.h"

enum run_full { RUN_FULL_WAIT, RUN_FULL_DROP, RUN_FULL_STOP };

enum run_report { RUN_TEXT, RUN_JSON, RUN_CSV, RUN_HTML, RUN_NONE };

struct run_options {
    /* what to run */
    char **program;                /* with its arguments, NULL at the end */
    VEC(const char *) environment; /* NAME=VALUE */
    const char *library;           /* NULL: the one that came with this program */
    uint64_t pid;                  /* of a process that runs already; 0: none */
    /* what to record */
    uint64_t depth, min_size, sample;
    const char *threads; /* whose allocations; NULL: all */
    bool mmap_pool;
    bool gpu;                /* load the library for device memory, too */
    uint64_t buffer;         /* bytes that the recording may take; 0: no limit */
    enum run_full when_full; /* what happens then */
    bool follow_fork;
    double min_lifetime; /* seconds */
    double seconds;      /* to record; < 0: to the end */
    bool start_paused;   /* allocations are not recorded at first */
    int toggle;          /* the signal that stops recording them, or goes on; 0: none */
    /* to whom to offer it meanwhile */
    bool listen;
    bool no_exit;               /* wait for a server when the program has ended */
    bool no_exit_of_clients;    /* because a variable says so that clients of Tracy heed, too */
    const char *listen_address; /* NULL: the loopback's */
    uint64_t port;              /* 0: the first of the usual ones that is free … */
    bool any_port;              /* … or any */
    uint64_t protocol;
    /* what to make of it */
    const char *output; /* NULL: after the program and its pid */
    bool replace;
    const char *spool;   /* NULL: beside the output */
    const char *recover; /* a recording, or a folder of them, to finish instead of running */
    uint64_t adopt;      /* the process that loads the library now, instead of running it; 0 */
    double adopt_after;  /* seconds; one that ends earlier leaves no trace */
    bool keep;           /* the recording, too */
    uint32_t version;
    bool version_given;
    bool no_client; /* leave the program's own Tracy client to others */
    struct container_options container;
    bool no_symbols;
    bool no_code; /* for servers */
    struct resolve_options resolving;
    /* what to tell */
    enum run_report report;
    const char *report_file; /* NULL: standard error, or output */
    struct budgets fail_if;
    bool this_process; /* they are for the program's own process alone */
    bool open;
};

/* Frames of a call stack: REC_DEPTH and REC_DEPTH_MAX of client/recording_format.h. */
#define RUN_DEPTH 64u
#define RUN_DEPTH_MAX 255u

#define RUN_OPTIONS_EMPTY                                                                          \
    ((struct run_options){.depth = RUN_DEPTH,                                                      \
                          .when_full = RUN_FULL_WAIT,                                              \
                          .min_lifetime = 1,                                                       \
                          .seconds = -1,                                                           \
                          .protocol = PROTOCOL_MAX,                                                \
                          .version = FILE_VERSION(0, 14, 0),                                       \
                          .container = container_options_default()})

#endif
