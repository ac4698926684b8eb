#ifndef TIDEMARK_SERVER_CAPTURE_RECOVERY_H
#define TIDEMARK_SERVER_CAPTURE_RECOVERY_H

/*
 * What a capture would have saved, from its journal: everything up to the last whole frame in it.
 */

#include "server/capture/journal_read.h"

#define RECOVERY_LOOK_BYTES ((uint64_t)128 << 10)

struct recovery_options {
    /*
     * A part of the trace is complete, with all facts in the store. `saved` is where the capture
     * has saved it, NULL when it did not come to that. NULL: parts are dropped.
     */
    int (*part)(void *ctx, const char *saved, struct err *e);
    void *part_ctx;
    /* What arrived behind the journal's end. */
    const uint8_t *rest;
    size_t rest_len;
    /* How it ended, when the caller knows better than the journal, whose disk may be full. */
    bool has_end;
    enum session_end end;
    struct err cause;
    /* The capture goes on: no end is its end, SESSION_GOES_ON, unless the journal is damaged. */
    bool goes_on;
    /*
     * Before the trace is completed: more events for it, from another source. `start` is how the
     * connection began, whose welcome says what the client's clock is. NULL: there are none.
     */
    int (*more)(void *ctx, struct ingest *in, const struct intake_start *start, struct err *e);
    void *more_ctx;
    /*
     * Every RECOVERY_LOOK_BYTES of decompressed bytes: 1 ends the decoding there, as the memory
     * limit does; -1 with `e` the recovery. NULL: it is not asked.
     */
    int (*look)(void *ctx, struct trace *t, struct err *e);
    void *look_ctx;
    /* Now and then, with the bytes read so far and in all. May be NULL. */
    void (*progress)(void *ctx, uint64_t done, uint64_t total);
    void *progress_ctx;
};

struct recovery {
    const struct wire_version *version;
    struct welcome welcome;
    bool cut;             /* it begins with a checkpoint */
    bool short_of_memory; /* what was decoded is all that there was memory for */
    uint64_t received;    /* bytes of the client, also those before a checkpoint */
    uint64_t frames;
    uint64_t beyond; /* bytes behind the last whole frame */
    uint64_t sent;   /* query packets */
    uint64_t unanswered;
    enum session_end end;
    struct err cause; /* of an end that was an error */
    struct journal_tail tail;
};

/*
 * Whether anything of a client is in the journal, and how it all began: to be asked before a store
 * is made for it. 1 or 0; -1 with `e`. Leaves the reader at its beginning.
 */
int recovery_look(struct journal_reader *reader, struct recovery *out, struct err *e);

/*
 * Plays the whole journal into `t`, which was just initialised, and completes it. -1 when it cannot
 * be read, or there is no room; that the client's bytes cannot be decoded is an end, no error.
 */
int recovery_run(struct journal_reader *reader, struct trace *t,
                 const struct recovery_options *options, struct recovery *out, struct err *e);

#endif
