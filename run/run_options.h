#pragma once

/* Options of `tidemark run`. */

#include <stdbool.h>
#include <stdint.h>

#include "analysis/questions/budgets.h"
#include "base/err.h"
#include "base/vec.h"
#include "naming/resolver.h"
#include "proc/look_times.h"
#include "proc/memory_rounds.h"
#include "protocol/wire_version.h"
#include "trace/file/container.h"

/* RUN_FULL_UNSAID: with a limit that was given they wait, else they stop. */
enum run_full { RUN_FULL_WAIT, RUN_FULL_DROP, RUN_FULL_STOP, RUN_FULL_UNSAID };

enum run_report { RUN_TEXT, RUN_JSON, RUN_CSV, RUN_HTML, RUN_MARKDOWN, RUN_JUNIT, RUN_NONE };

struct run_options {
    /* what to run */
    char **program;                /* with its arguments, NULL at the end */
    VEC(const char *) environment; /* NAME=VALUE */
    const char *library;           /* NULL: the one that comes with this program */
    uint64_t pid;                  /* of a running process to record; 0: none */
    /* what to record */
    uint64_t depth, min_size, sample;
    const char *threads; /* whose allocations to record; NULL: all */
    bool mmap_pool;
    bool no_python;         /* do not read the frames of Python functions */
    bool python_allocators; /* Python takes each object from malloc */
    uint64_t memory_hz;     /* readings per second of the process's memory; 0: none */
    bool no_resident;       /* do not look at the pages of processes */
    struct look_wishes looks;
    bool gpu;                /* also load the library for device memory */
    uint64_t buffer;         /* limit of each recording in bytes; 0: by the disk */
    enum run_full when_full; /* what happens at that limit */
    bool figures;            /* keep no memory events (analysis/figures/figures_only.h) */
    bool follow_fork;
    double min_lifetime; /* seconds; < 0: not given */
    double seconds;      /* of recording; < 0: to the end */
    bool start_paused;   /* begin without recording allocations */
    int toggle;          /* signal that pauses and resumes recording; 0: none */
    /* whom to offer it to during the run */
    bool listen;
    bool no_exit;               /* after the program's end, wait for a server */
    bool no_exit_of_clients;    /* because of a variable that Tracy clients also read */
    const char *listen_address; /* NULL: the loopback */
    uint64_t port;              /* 0: the first free one of the usual ports … */
    bool any_port;              /* … or any */
    uint64_t protocol;
    /* where the results go */
    const char *output; /* NULL: named after the program and its pid */
    bool replace;
    const char *spool;   /* NULL: beside the output */
    const char *recover; /* recording, or folder of recordings, to recover */
    uint64_t adopt;      /* the process that loaded the library, instead of running one; 0: none */
    double adopt_after;  /* seconds; a process that ends earlier leaves no trace */
    bool keep;           /* also keep the recording */
    uint32_t version;
    bool version_given;
    bool no_client; /* do not capture the program's own Tracy client */
    struct container_options container;
    bool no_symbols;
    bool no_code; /* do not answer servers' queries for machine code */
    struct resolve_options resolving;
    /* what to report */
    enum run_report report;
    const char *report_file; /* NULL: standard error, or output */
    struct budgets fail_if;
    bool all_leaks;    /* budgets also count permanent blocks (permanent.h) */
    bool this_process; /* budgets apply to the program's own process only */
    uint64_t repeat;   /* runs, whose budgets and report are about all of them; 0: one run */
    const char *base;  /* what they are compared with; NULL: nothing */
    bool open;
    bool quiet; /* no progress lines */
};

/* Frames of a call stack: REC_DEPTH and REC_DEPTH_MAX of client/recording_format.h. */
#define RUN_DEPTH 64u
#define RUN_DEPTH_MAX 255u

#define RUN_OPTIONS_EMPTY                                                                          \
    ((struct run_options){.depth = RUN_DEPTH,                                                      \
                          .memory_hz = MEMORY_HZ,                                                  \
                          .when_full = RUN_FULL_UNSAID,                                            \
                          .min_lifetime = -1,                                                      \
                          .seconds = -1,                                                           \
                          .protocol = PROTOCOL_MAX,                                                \
                          .version = FILE_VERSION(0, 14, 0),                                       \
                          .container = container_options_default()})
