#ifndef TIDEMARK_RUN_RECORDING_RECORDING_H
#define TIDEMARK_RUN_RECORDING_RECORDING_H

/*
 * The recording of a process into a trace: the records of all its threads, merged by stamp, become
 * events of the ingest. It can be read while the process lives, as far as it is known that nothing
 * earlier can still come, or once it ended, also when nobody read it until then. The file is of a
 * stranger: what makes no sense is counted and passed over, and no byte of it is believed.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "run/recording/recording_chunks.h"
#include "run/recording/recording_images.h"
#include "trace/ingest/ingest.h"

/* What one or several recordings go into. */
struct recording_target {
    struct ingest *in;
    struct image_places places;
    int64_t last;   /* ns; of the last event that went in. No two events have the same time. */
    uint64_t begin; /* CLOCK_MONOTONIC at the trace's time 0; 0: that of the first recording */
    /*
     * Of a trace that another client's clock gives the times, which counts the same ticks as the
     * recording's stamps: ns of a tick, and the stamp at time 0. 0: the trace is the recording's.
     */
    double tick_ns;
    uint64_t zero_stamp;
};

void recording_target_init(struct recording_target *t, struct ingest *in);
void recording_target_release(struct recording_target *t);

/* What was counted; see recording_finish. */
struct recording_counts {
    uint64_t allocations, frees;
    uint64_t put_back;  /* blocks whose realloc failed */
    uint64_t damaged;   /* places where records made no sense, and what follows was lost */
    uint64_t stackless; /* events whose call stack is not in the recording */
    uint64_t notes;     /* zones, messages, plots and frames, but for zones of the library's own */
    uint64_t forks;     /* children that are to be recorded, too */
    uint64_t unknown_kind; /* records of a kind that is not known here */
    uint64_t pauses;       /* times that allocations were not recorded, by wish */
};

struct recording;

/* A program that the process executed in its place, or a child: what the process says of it. */
struct recording_start {
    enum rec_kind kind; /* REC_EXEC, REC_SPAWN or REC_FORK */
    pid_t pid;          /* as the process sees it; 0: unknown. Of REC_EXEC its own */
    bool followed;      /* it is to be recorded */
    char *path;         /* as it was called; NULL: not known */
};

/* What is kept of them until the caller takes them. */
#define RECORDING_STARTS 16384u
#define RECORDING_START_PATHS ((size_t)1 << 20) /* bytes */

/*
 * `fd` stays the caller's and must stay open. ERR_INPUT when the file is no recording; one whose
 * process did not get to write the header is none, too.
 */
int recording_open(struct recording **out, int fd, struct recording_target *target, struct err *e);
void recording_free(struct recording *r);

/*
 * Reads on. `alive`: the process may be writing; only what is in its final order is taken, at most
 * about `most` events. Once it is dead: as long as `most` were taken there may be more. *taken
 * (events).
 */
int recording_advance(struct recording *r, bool alive, uint64_t most, uint64_t *taken,
                      struct err *e);

/* Allocations are recorded no more from now on, or again. To be called while the process lives. */
int recording_note_pause(struct recording *r, bool paused, struct err *e);

/* What the process does from now on is not wanted. To be called while it lives. */
int recording_stop(struct recording *r, struct err *e);

/*
 * To be called once, when the process is dead and nothing more is to be taken: names of threads.
 * `part`: other recordings go into the same trace, so its blocks are discarded; else the facts
 * about the recording are added.
 */
int recording_finish(struct recording *r, bool part, struct err *e);

/*
 * Calls `take` with each start that was read since the last call; the path is the callee's to free.
 * Returns how many were dropped, because there were too many.
 */
uint64_t recording_take_starts(struct recording *r, void (*take)(void *, struct recording_start *),
                               void *ctx);

/* The header of a recording. ERR_INPUT when the file is none. */
int recording_read_header(int fd, struct rec_header *h, struct err *e);

/* As it stands in the file now. */
int recording_header(const struct recording *r, struct rec_header *h, struct err *e);

/* What a thread is called as far as was read; empty when it is not known. Valid until free. */
struct view recording_thread_name(const struct recording *r, uint64_t thread);

const struct recording_counts *recording_counts(const struct recording *r);

#endif
