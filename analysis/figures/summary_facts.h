#pragma once

/*
 * Facts of a trace that its summary has as lines below the answer, beside resident_fact.h.
 *
 * What grew as a process came near the end of its memory, and what the OOM killer killed if that
 * ended the recorded program, or a client's connection (analysis/questions/near_limit.h); or, of a
 * recovered trace, what it had killed in the cgroup until the recovery:
 *
 *     tidemark.near_limit=FROM TO USE LIMIT WORDS
 *     tidemark.near_limit=FROM TO PERCENT 0 WORDS
 *     tidemark.oom_kills=KILLS limit BYTES
 *     tidemark.oom_kills=KILLS limit BYTES at recovery
 *
 * Fragmentation when an imported snapshot of PyTorch was made, one for each GPU, from
 * import/torch_import.c:
 *
 *     tidemark.gpu_segments=GPU SEGMENTS RESERVED USED LARGEST
 *
 * What the driver reported of a recorded process (proc/gpu_driver.h), beside the live blocks of the
 * pools "CUDA device N" at that time: the reading with the most, the last of them.
 *
 *     tidemark.gpu_use=TIME REPORTED ATTRIBUTED USED SIZE
 *     tidemark.gpu_use=unknown
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
    uint64_t kills;      /* of the OOM killer in its cgroup; 0: none known */
    bool recovered;      /* these were counted at the recovery; else it was killed meanwhile */
};

/* False: the trace has no such fact, or malformed ones. `growth` points into the trace. */
bool near_limit_read(const struct trace *t, struct near_limit *n);

/* "limit: 97.7 MiB of the cgroup's 100 MiB at 3.21 s, …", without a newline. */
void near_limit_words(struct buf *out, const struct near_limit *n);

struct gpu_segments {
    uint64_t gpu;
    uint64_t count;
    uint64_t reserved; /* bytes */
    uint64_t used;     /* bytes of blocks in them, rounded up as PyTorch does */
    uint64_t largest;  /* bytes of the largest free block */
};

/* The n-th fact. False: there is none, or it is malformed. */
bool gpu_segments_read(const struct trace *t, unsigned n, struct gpu_segments *s);

/* "gpu0: 36 segments reserve 1.67 GiB, …", without a newline. */
void gpu_segments_words(struct buf *out, const struct gpu_segments *s);

struct gpu_use {
    bool known;          /* the driver reported it; else all else is 0 */
    int64_t time;        /* ns */
    uint64_t reported;   /* bytes of the process, on all GPUs */
    uint64_t attributed; /* bytes of live recorded blocks on them */
    uint64_t used, size; /* of all processes, and in all, on the GPUs that it used */
};

/* Whether it is a pool of device memory, by its name (client/gpu/gpu.c). */
bool gpu_is_device(struct view pool);

/*
 * Adds the fact to a trace of `tidemark run` with such pools, which has its events; not to one of
 * figures only.
 */
int gpu_use_note(struct trace *t, struct err *e);

/* False: there is no such fact, a malformed one, or those of several processes. */
bool gpu_use_read(const struct trace *t, struct gpu_use *u);

/* "gpu 3.10 GiB at 2.1 s as the driver reports: attributed 2.60 GiB, …", without a newline. */
void gpu_use_words(struct buf *out, const struct gpu_use *u);

/* The lines of all these facts, and of resident_fact.h, each with its newline. */
void summary_lines(struct buf *out, const struct trace *t);
