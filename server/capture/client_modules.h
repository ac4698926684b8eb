#ifndef TIDEMARK_SERVER_CAPTURE_CLIENT_MODULES_H
#define TIDEMARK_SERVER_CAPTURE_CLIENT_MODULES_H

/*
 * The module table of a client on this host (docs/facts.md): which images were mapped where, and
 * their build ids. A trace has neither load bases nor build ids, so this is what makes its
 * addresses mean something later. It is read while the client lives and kept as facts:
 *
 *     tidemark.module=START-END OFFSET BUILDID PATH      (hexadecimal; BUILDID is - when unknown)
 *
 * one for each executable mapping of a file. The process is the one that owns the other end of our
 * socket, found through /proc, never the pid that the welcome claims.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/map.h"
#include "symbols/place/process_root.h"
#include "trace/store/store.h"

struct modules {
    pid_t pid;                /* 0: the client is not on this host, or hidden from us */
    long long last_read;      /* monotonic ns */
    size_t frames_read;       /* frames that the store had then */
    struct map seen;          /* hash of (start, path) → 1 */
    int maps;                 /* its table, for when looking is not allowed any more; -1: none */
    struct process_root root; /* where its paths lead, if not where ours do */
    int sampler;              /* the connection to one (capture/sampler.h); -1: none */
};

/*
 * Looks for the process at the other end of the connected TCP socket `fd`. That there is none, or
 * that it cannot be looked at, is no error; that memory is short is one, here and below. `sampler`,
 * unless -1, looks into other processes in our place, and outlives this.
 */
int modules_init(struct modules *m, int fd, int sampler, struct err *e);
void modules_release(struct modules *m);

/*
 * Whether the process has this id, in its own eyes too if it lives in a container. One that has not
 * is not the client, but something that stands between: a tunnel, a replay.
 */
bool modules_has_pid(const struct modules *m, uint64_t pid);

/*
 * Reads the table when it was never read, or when new frames have come since and a second has
 * passed: a library may have been loaded. `now` is monotonic ns.
 */
int modules_refresh(struct modules *m, struct trace *t, long long now, struct err *e);

/* Reads it one last time; to be called before the client is let go. */
int modules_finish(struct modules *m, struct trace *t, struct err *e);

#endif
