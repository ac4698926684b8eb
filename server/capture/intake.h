#pragma once

/*
 * Decodes a client's bytes into the store: wire frames → items → events, with the queries that they
 * cause. Both a live session and the recovery of a journal use it; the owner provides the bytes and
 * sends the queries.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/snapshot.h"
#include "protocol/decoder.h"
#include "protocol/handshake.h"
#include "protocol/query.h"
#include "protocol/wire_frame.h"
#include "protocol/wire_version.h"
#include "symbols/instructions.h"
#include "trace/ingest/ingest.h"
#include "trace/store/store.h"

enum session_end {
    SESSION_COMPLETE,     /* the client ended in order */
    SESSION_STOPPED,      /* stopped by a signal */
    SESSION_TIME_LIMIT,   /* -s */
    SESSION_MEMORY_LIMIT, /* -m */
    SESSION_VANISHED,     /* the connection broke */
    SESSION_BROKEN,       /* bytes that cannot be decoded */
    SESSION_FAULT,        /* a memory fault, under --strict */
    SESSION_NO_ROOM,      /* memory or spool space ran out */
    SESSION_SIZE_LIMIT,   /* --max-size */
    SESSION_PART_FULL,    /* not an end: a part that continues in the next trace */
    SESSION_CUT_OFF,      /* the capture itself was killed; read from its journal */
    SESSION_GOES_ON,      /* not an end: a trace that a flight recorder saved on request */
    SESSION_HOMELESS,     /* the output folder was removed */
    SESSION_END_COUNT,
};

/* "the client vanished", … */
const char *session_end_text(enum session_end end);

/* All that decoding depends on besides the bytes. */
struct intake_start {
    const struct wire_version *version;
    struct welcome welcome;
    struct on_demand on_demand; /* valid if the welcome's flags say on-demand */
    uint32_t ask;               /* kinds of queries, as in query_config */
    uint32_t space;             /* limit of unanswered queries */
    bool strict;                /* end at the first memory fault */
    bool as_released;           /* as in decoder_config */
    bool figures;               /* keep no memory events (analysis/figures/figures_only.h) */
};

struct intake {
    struct intake_start start;
    struct trace *trace;
    struct pageable pageable; /* of query and decoder, when the trace pages its tables */
    struct ingest ingest;
    struct query *query;
    struct decoder *decoder;
    struct frame_reader *frames;
    uint64_t turned;                   /* frames at the last turn */
    unsigned finished;                 /* number, from 1, of the last finished part */
    size_t end_fact;                   /* index of its fact `end` in the app info */
    struct instructions *instructions; /* NULL when code is not queried */
};

/*
 * Opens an intake into a store that was just initialised and outlives it. Zeroed memory may be
 * released.
 */
int intake_open(struct intake *r, struct trace *t, const struct intake_start *start, struct err *e);
void intake_release(struct intake *r);

/*
 * Takes bytes from *bytes (advancing both) until one more frame is in the store, and returns 1; 0
 * when all bytes are taken. -1 when they cannot be decoded (ERR_INPUT), at a fault under `strict`
 * (ERR_CHECK), or when memory or spool space is short; all events before that are in the store.
 */
int intake_take(struct intake *r, const uint8_t **bytes, size_t *len, struct err *e);

/*
 * Begins another part (ingest_begin_part), unless no frame arrived since the last turn. Returns 1
 * if it did, 0 if not. -1 if the previous part cannot be released, or, with `ingest.torn`, no other
 * can be begun.
 */
int intake_turn(struct intake *r, struct err *e);

/*
 * Saves or loads (base/snapshot.h) the state right after intake_turn. Load it into an intake that
 * was just opened with the same start. After a failure the intake must only be released.
 */
void intake_snapshot(struct snapshot *s, struct intake *r);

/* Number of frames taken in full. */
uint64_t intake_frames(const struct intake *r);

/* Names that the client never sent, by kind of query. */
uint64_t intake_unanswered(const struct intake *r);

/* The session end that corresponds to an error. */
enum session_end intake_end_of(const struct err *e);

/*
 * Stores the facts about how the trace ended. Call it after the last byte of a trace or of one of
 * its parts; `cause` is the error of the end, if there was one. A second call, for a part that
 * could not be saved and so became the last, updates only the end.
 */
int intake_finish(struct intake *r, enum session_end end, const struct err *cause, struct err *e);
