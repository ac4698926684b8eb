#pragma once

/*
 * What grew as a process came near the end of its memory, as trace/store/limit_watch.h finds in the
 * readings of the kernel's plots: near the limit of its memory cgroup, or else under pressure. The
 * growth is that of the live blocks from the last reading before that was far from it to the one
 * with the highest use (or pressure), or to the end of the trace if the OOM killer killed the
 * program. The cgroup's use includes other processes and cached files.
 *
 * A fact of the trace, found when it is saved:
 *
 *     tidemark.near_limit=FROM TO USE LIMIT WORDS
 *     tidemark.near_limit=FROM TO PERCENT 0 WORDS
 *
 * If the OOM killer killed, that is another one, of `run` or noted with it:
 *
 *     tidemark.oom_kills=KILLS limit BYTES
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "trace/store/store.h"

struct near_limit {
    int64_t from, to;    /* ns; from < 0: no reading was far from it */
    uint64_t use, limit; /* bytes, in the reading with the highest use; limit 0: pressure */
    uint64_t waited;     /* then, percent of about a second */
    struct view growth;  /* "live blocks grew by 17.1 MiB: …"; p NULL: nothing of the above */
    uint64_t kills;      /* of the OOM killer in its cgroup, if it was killed; 0: none known */
};

/* Adds the facts if the limit was near. `t` has its events, names, plots, and how it ended. */
int near_limit_note(struct trace *t, struct err *e);

/* False: the trace has no such fact, or malformed ones. `growth` points into the trace. */
bool near_limit_read(const struct trace *t, struct near_limit *n);

/* "limit: 97.7 MiB of the cgroup's 100 MiB at 3.21 s, …", without a newline. */
void near_limit_words(struct buf *out, const struct near_limit *n);
