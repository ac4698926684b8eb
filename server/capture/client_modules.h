#pragma once

/*
 * The module table of a client on this host (docs/facts.md): the mapped images with their addresses
 * and build ids. A trace has neither load bases nor build ids; without this table its addresses
 * cannot be resolved later. It is read while the client lives and kept as facts:
 *
 *     tidemark.module=START-END OFFSET BUILDID PATH      (hexadecimal; BUILDID is - when unknown)
 *
 * one for each executable mapping of a file. The process is the owner of the socket's other end,
 * found through /proc; the pid in the welcome message is not trusted.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/map.h"
#include "proc/process_memory.h"
#include "symbols/place/process_root.h"
#include "trace/store/store.h"

struct modules {
    pid_t pid;           /* 0: the client is not on this host, or not visible */
    long long last_read; /* monotonic ns */
    size_t frames_read;  /* frames in the store at the last read */
    struct map seen;     /* hash of (start, path) → 1 */
    struct process_early early;
    struct process_root root; /* root of its paths, if it differs from this process's */
    int sampler;              /* connection to a sampler (guard/sampler.h); -1: none */
};

/*
 * Finds the process at the other end of the connected TCP socket `fd`, `likely` as in socket_owner.
 * It is no error if there is none or it cannot be read; short memory is an error, here and below.
 * `sampler`, unless -1, reads other processes on behalf of this one and must outlive `m`.
 */
int modules_init(struct modules *m, int fd, uint64_t likely, int sampler, struct err *e);
void modules_release(struct modules *m);

/*
 * Whether the process has this id, in its own pid namespace or in this one. If not, it is not the
 * client but an intermediary: a tunnel or a replay.
 */
bool modules_has_pid(const struct modules *m, uint64_t pid);

/*
 * Reads the table if it was never read, or if new frames have arrived and a second has passed,
 * since a library may have been loaded. `now` is monotonic ns.
 */
int modules_refresh(struct modules *m, struct trace *t, long long now, struct err *e);

/* Reads the table one last time. Call it before the client is released. */
int modules_finish(struct modules *m, struct trace *t, struct err *e);
