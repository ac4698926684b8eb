#pragma once

/*
 * The files in which a process names the code that it generates: its jitdump (naming/jitdump.h) and
 * /tmp/perf-PID.map (naming/perf_map.h), PID as in the process's pid namespace.
 *
 * A jitdump may be in any folder: that in which the process began, /tmp, or, since the process maps
 * it, where /proc/PID/maps says. Both are opened in the process's root. Only a regular file of the
 * process's user, written since it began, is its own: pids come again, and all users may write in
 * /tmp.
 */

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "symbols/place/process_root.h"
#include "trace/store/store.h"

/* Larger files are not read. */
#define GENERATED_BYTES_MOST ((uint64_t)256 << 20)

/* Where to look, kept while the process runs. */
struct generated_files {
    bool begun;
    struct process_root root;
    int folder; /* in which the process began; -1: not known */
    int dump;   /* its jitdump, found among its mappings; -1: none yet */
    int map;    /* /tmp/perf-PID.map at the last look; -1: there was none */
};

/* Opens what is lost when the process ends. Again: does nothing. */
void generated_files_begin(struct generated_files *g, pid_t pid);
void generated_files_release(struct generated_files *g);

/* Looks for a jitdump among the mappings of the process. */
void generated_files_look(struct generated_files *g, pid_t pid);

/* Keeps the map, which the process may remove. `pid`: in its pid namespace. */
void generated_files_keep_map(struct generated_files *g, pid_t pid);

/* The process, which may have ended. */
struct generated_process {
    pid_t pid;      /* in its pid namespace */
    uid_t owner;    /* its user */
    uint64_t began; /* CLOCK_MONOTONIC, ns */
};

/*
 * Names the frames of its trace, with a fact `generated_code` if there are any. `begin`:
 * CLOCK_MONOTONIC at the trace's time 0. ERR_INPUT for a file that is not read, with why; the other
 * one was tried nevertheless.
 */
int generated_files_name(const struct generated_files *g, const struct generated_process *p,
                         uint64_t begin, struct trace *t, struct err *e);
