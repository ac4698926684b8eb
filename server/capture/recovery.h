#pragma once

/* Rebuilds the trace of a capture from its journal, up to the last whole frame in it. */

#include "server/capture/journal_read.h"

#define RECOVERY_LOOK_BYTES ((uint64_t)128 << 10)

struct recovery_options {
    /*
     * A part of the trace is complete, with all facts in the store. `saved` is the path where the
     * capture saved it, NULL if it did not. A NULL callback drops parts.
     */
    int (*part)(void *ctx, const char *saved, struct err *e);
    void *part_ctx;
    /* Bytes that arrived after the journal's end. */
    const uint8_t *rest;
    size_t rest_len;
    /* The end, when the caller knows it better than the journal, whose disk may be full. */
    bool has_end;
    enum session_end end;
    struct err cause;
    /* The capture goes on: a missing end means SESSION_GOES_ON, unless the journal is damaged. */
    bool goes_on;
    /*
     * Adds events from another source before the trace is completed. `start` describes the
     * connection; its welcome has the calibration of the client's clock. NULL: there are none.
     */
    int (*more)(void *ctx, struct ingest *in, const struct intake_start *start, struct err *e);
    void *more_ctx;
    /*
     * Called every RECOVERY_LOOK_BYTES of decompressed bytes: 1 ends the decoding there, as the
     * memory limit does; -1 with `e` ends the recovery. May be NULL.
     */
    int (*look)(void *ctx, struct trace *t, struct err *e);
    void *look_ctx;
    /* Called before a part or the whole trace is completed, which takes memory too. May be NULL. */
    void (*complete)(void *ctx);
    void *complete_ctx;
    /* Called regularly, with the bytes read so far and in all. May be NULL. */
    void (*progress)(void *ctx, uint64_t done, uint64_t total);
    void *progress_ctx;
};

struct recovery {
    const struct wire_version *version;
    struct welcome welcome;
    bool cut;             /* the journal begins with a checkpoint */
    bool short_of_memory; /* decoding ended because memory was short */
    uint64_t received;    /* bytes received from the client, also those before a checkpoint */
    uint64_t frames;
    uint64_t beyond; /* bytes after the last whole frame */
    uint64_t sent;   /* query packets */
    uint64_t unanswered;
    enum session_end end;
    struct err cause; /* the error that ended the session */
    struct journal_tail tail;
};

/*
 * Reads the start of the connection and whether the journal has bytes of the client, or readings of
 * its memory. Call it before a store is made. 1 or 0; -1 with `e`. Rewinds the reader.
 */
int recovery_look(struct journal_reader *reader, struct recovery *out, struct err *e);

/*
 * Plays the whole journal into `t`, which was just initialised, and completes the trace. -1 when
 * the journal cannot be read or room is short. Bytes that cannot be decoded end the trace but are
 * no error.
 */
int recovery_run(struct journal_reader *reader, struct trace *t,
                 const struct recovery_options *options, struct recovery *out, struct err *e);
