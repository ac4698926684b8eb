#ifndef TIDEMARK_SERVER_CAPTURE_INTAKE_H
#define TIDEMARK_SERVER_CAPTURE_INTAKE_H

/*
 * A client's bytes on their way into the store: frames → items → events, with the queries that they
 * bring about. The same for a live session and for a journal that is being finished; where the
 * bytes come from and where the queries go is its owner's business.
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
    SESSION_COMPLETE,     /* the client said that it ends */
    SESSION_STOPPED,      /* we were asked to stop, by signal */
    SESSION_TIME_LIMIT,   /* -s */
    SESSION_MEMORY_LIMIT, /* -m */
    SESSION_VANISHED,     /* the connection broke */
    SESSION_BROKEN,       /* bytes that cannot be decoded */
    SESSION_FAULT,        /* a memory fault, and the caller wanted to end at one */
    SESSION_NO_ROOM,      /* memory or spool space ran out */
    SESSION_SIZE_LIMIT,   /* --max-size */
    SESSION_PART_FULL,    /* not the end: what a part says that goes on in another trace */
    SESSION_CUT_OFF,      /* the capture itself was killed: what its journal says */
    SESSION_GOES_ON,      /* not the end: what a flight recorder was asked for says */
    SESSION_HOMELESS,     /* the folder that the output was to go to was removed */
    SESSION_END_COUNT,
};

/* "the client vanished", … */
const char *session_end_text(enum session_end end);

/* All that decoding depends on but the bytes themselves. */
struct intake_start {
    const struct wire_version *version;
    struct welcome welcome;
    struct on_demand on_demand; /* when the welcome's flags say so */
    uint32_t ask;               /* kinds of queries, as query_config has them */
    uint32_t space;             /* queries unanswered at a time */
    bool strict;                /* end at the first memory fault */
    bool as_released;           /* as decoder_config has it */
};

struct intake {
    struct intake_start start;
    struct trace *trace;
    struct ingest ingest;
    struct query *query;
    struct decoder *decoder;
    struct frame_reader *frames;
    uint64_t turned;                   /* frames until the last turn */
    unsigned finished;                 /* the number, from 1, of the last part that was finished */
    size_t end_fact;                   /* where its fact `end` stands in the app info */
    struct instructions *instructions; /* NULL when code is not asked for */
};

/*
 * Into a store that was just initialised and outlives the intake. Zeroed memory may be released.
 */
int intake_open(struct intake *r, struct trace *t, const struct intake_start *start, struct err *e);
void intake_release(struct intake *r);

/*
 * Takes bytes from *bytes (advancing both) until one more frame is in the store: 1. 0 when all are
 * taken. -1 when they cannot be decoded (ERR_INPUT), at a fault under `strict` (ERR_CHECK), or when
 * there is no room; every event before that is in the store.
 */
int intake_take(struct intake *r, const uint8_t **bytes, size_t *len, struct err *e);

/*
 * Goes on in another part (ingest_begin_part), unless no frame came since the last time. 1 when it
 * did, 0 when not. -1 when the part before cannot be let go of, or, with `ingest.torn`, no other be
 * begun.
 */
int intake_turn(struct intake *r, struct err *e);

/*
 * The state right behind intake_turn, both ways (base/snapshot.h): into an intake that was just
 * opened with the same start. After a failure it must only be released.
 */
void intake_snapshot(struct snapshot *s, struct intake *r);

/* Frames taken in full. */
uint64_t intake_frames(const struct intake *r);

/* Names that the client never told, by kind of query. */
uint64_t intake_unanswered(const struct intake *r);

/* What an error ends an intake as. */
enum session_end intake_end_of(const struct err *e);

/* Whether a trace that ends so lacks something at its end. */
bool session_end_is_partial(enum session_end end);

/*
 * What the trace itself should say about how it ended. To be called behind the last byte of a trace
 * or of one of its parts; `cause` is the error of the end, if it was one. Again for a part that
 * could not be saved and so became the last: then only how it ended is said anew.
 */
int intake_finish(struct intake *r, enum session_end end, const struct err *cause, struct err *e);

#endif
