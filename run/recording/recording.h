#pragma once

/*
 * Reads the recording of a process into a trace: the records of all threads are merged by stamp and
 * become events of the ingest. A recording can be read while the process lives, up to the point
 * before which nothing more can arrive, or after it ended. The file is not trusted: invalid records
 * are counted and skipped.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "run/recording/recording_chunks.h"
#include "run/recording/recording_images.h"
#include "trace/ingest/ingest.h"

/* The destination of one or several recordings. */
struct recording_target {
    struct ingest *in;
    struct image_places places;
    int64_t last;   /* ns; time of the last added event. All events have different times. */
    uint64_t begin; /* CLOCK_MONOTONIC at the trace's time 0; 0: taken from the first recording */
    /*
     * For a trace with another client's clock, which counts the same ticks as the recording's
     * stamps: ns per tick, and the stamp at time 0. 0: the trace has the recording's clock.
     */
    double tick_ns;
    uint64_t zero_stamp;
    /* Blocks that were live at the ends of processes that share the trace; freed there. */
    uint64_t left_blocks, left_bytes;
};

void recording_target_init(struct recording_target *t, struct ingest *in);
void recording_target_release(struct recording_target *t);

/* Totals; see recording_finish. */
struct recording_counts {
    uint64_t allocations, frees;
    uint64_t put_back;     /* blocks that stay live since their realloc failed */
    uint64_t capped_sizes; /* allocations beyond the 48 bits of a size, which have the largest */
    uint64_t damaged;      /* places where an invalid record ended a chunk */
    uint64_t stackless;    /* events whose call stack is missing in the recording */
    uint64_t notes;        /* zones, messages, plots and frames, without the library's own zones */
    uint64_t forks;        /* children that are recorded, too */
    uint64_t unknown_kind; /* records of an unknown kind */
    uint64_t pauses;       /* requested pauses of the recording */
};

struct recording;

/*
 * A program that the process executed, or a child that it started, as the recording describes it.
 */
struct recording_start {
    enum rec_kind kind; /* REC_EXEC, REC_SPAWN or REC_FORK */
    pid_t pid;          /* in the process's pid namespace; 0: unknown. For REC_EXEC its own */
    bool followed;      /* it is to be recorded */
    char *path;         /* as given to exec; NULL: not known */
};

/* Limits of what is kept until the caller takes it. */
#define RECORDING_STARTS 16384u
#define RECORDING_START_PATHS ((size_t)1 << 20) /* bytes */

/*
 * The caller keeps `fd`, which must stay open. ERR_INPUT when the file is not a recording, or has
 * no header yet.
 */
int recording_open(struct recording **out, int fd, struct recording_target *target, struct err *e);
void recording_free(struct recording *r);

/*
 * Reads on. `alive`: the process may be writing; reads only records whose order is final, at most
 * about `most` events. For an ended process: if `most` events were read, there may be more. *taken:
 * number of events.
 */
int recording_advance(struct recording *r, bool alive, uint64_t most, uint64_t *taken,
                      struct err *e);

/*
 * Notes that the recording of allocations was paused or resumed. Call it while the process lives.
 */
int recording_note_pause(struct recording *r, bool paused, struct err *e);

/* Ends the recording: later events are not wanted. Call it while the process lives. */
int recording_stop(struct recording *r, struct err *e);

/*
 * Adds the names of threads. Call it once, when the process has ended and all wanted events were
 * read. `part`: the trace has other recordings, too, so this one's blocks are discarded; else the
 * facts about the recording are added.
 */
int recording_finish(struct recording *r, bool part, struct err *e);

/*
 * Calls `take` with each start that was read since the last call; the callee frees the path.
 * Returns how many were dropped because there were too many.
 */
uint64_t recording_take_starts(struct recording *r, void (*take)(void *, struct recording_start *),
                               void *ctx);

/* Reads the header of a recording. ERR_INPUT when the file is not a recording. */
int recording_read_header(int fd, struct rec_header *h, struct err *e);

/* Reads the header's present state. */
int recording_header(const struct recording *r, struct rec_header *h, struct err *e);

/*
 * A thread's last name read so far; empty when it is not known. Valid until the recording is freed.
 */
struct view recording_thread_name(const struct recording *r, uint64_t thread);

const struct recording_counts *recording_counts(const struct recording *r);
