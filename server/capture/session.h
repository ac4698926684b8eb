#ifndef TIDEMARK_SERVER_CAPTURE_SESSION_H
#define TIDEMARK_SERVER_CAPTURE_SESSION_H

/*
 * One client being recorded: socket → frames → events → store, queries back, until the client ends,
 * vanishes, sends what cannot be decoded, or we are asked to stop. Whatever had arrived is in the
 * store then.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "server/capture/intake.h"
#include "server/capture/journal.h"
#include "server/capture/memory_limit.h"
#include "server/net/connect_client.h"
#include "server/net/stop.h"
#include "symbols/place/process_root.h"
#include "trace/store/store.h"

/* How things stand, for a progress line. */
struct session_progress {
    double seconds;          /* since the connection */
    double bytes_per_second; /* from the socket, over the last interval */
    double compression;      /* compressed / uncompressed, 0 … 1 */
    uint64_t bytes_in;       /* from the socket, in all */
    uint64_t memory_events;  /* allocations and frees, all pools, in all */
    uint64_t live_allocations;
    uint64_t live_bytes;
    int64_t last_time; /* ns on the client's clock */
    uint32_t queries;  /* queued or unanswered */
    bool last;         /* nothing comes any more */
};

struct session_limits {
    double seconds;              /* stop after so long; < 0: never */
    uint64_t memory_bytes;       /* stop when this process holds more; 0: never */
    struct memory_limit *memory; /* to be kept by spilling; NULL: none */
    uint64_t max_bytes;          /* stop when so many were received; 0: never */
    double rotate_seconds;       /* go on in another part each time so long has passed; 0: never */
    uint64_t rotate_bytes;       /* and when so many bytes have been received; 0: never */
    bool *turn;                  /* and when this is set; it is cleared then. NULL: never */
    /*
     * A flight recorder: what is older than the time or the bytes above is dropped, from the store
     * and from the journal, which there must be. The store has the newest stretch only; the journal
     * has all that is to be kept (session_has_dropped).
     */
    bool forget;
    double frame_seconds;  /* a frame that has begun must be whole after so long; 0: it need not */
    double drain_seconds;  /* after a stop: how long to wait for answers */
    double silent_seconds; /* and how long for the next one */
    double quiet_seconds;  /* after the client's end: how long to wait for the next sign of life */
    /*
     * The format's clock (39 hours) is at its end, or a table nearly at what a file can number, or
     * it is time to rotate: called with all facts
     * in the store, to save it. The session then goes on with what is live. NULL: there are no
     * parts; later times are clamped and counted. 0: it is saved. 1: it is being saved, as
     * `part_saved` tells: 1 when it is, 0 not yet, unless `wait`; -1 when it could not be.
     */
    int (*part_full)(void *ctx, struct err *e);
    int (*part_saved)(void *ctx, bool wait, struct err *e);
    /*
     * A flight recorder is asked (`turn`) for what it keeps, which is in the journal: 0 when it is
     * saved, 1 when it is being saved, as `part_saved` tells, and the journal drops nothing.
     * Without this it does not listen.
     */
    int (*save_kept)(void *ctx, struct err *e);
    /* Whether what could not be written has no place any more, rather than no room. NULL: never. */
    bool (*is_homeless)(const void *ctx);
    void *part_ctx;
    void *progress_ctx;
    void (*progress)(void *ctx, const struct session_progress *p); /* about ten times a second */
};

struct session; /* opaque */

struct session_options {
    bool strict;      /* end at the first memory fault */
    bool as_released; /* as the server of the client's release does, not a later one */
    bool no_code;     /* do not ask for machine code, nor for the lines of its instructions */
    bool no_sources;  /* do not ask for the texts of source files */
    /*
     * Do not ask what the frames of call stacks are: it will be found out here. A client whose
     * module table cannot be read is asked after all (session_is_local).
     */
    bool no_symbols;
    /* Where all that arrives goes before it is looked at; outlives the session. NULL: nowhere. */
    struct journal *journal;
    /* A connection to a sampler (server/guard/sampler.h), which outlives the session. NULL: none.
     */
    const int *sampler;
};

/*
 * A session over a connection, which it takes over (also on failure), and a store that outlives
 * it and was just initialised. NULL when memory is short.
 */
struct session *session_new(struct connection *c, struct trace *t,
                            const struct session_options *options, struct err *e);

/*
 * Runs to the end. `e` holds the cause for BROKEN, FAULT, NO_ROOM and HOMELESS. The connection is
 * closed afterwards, the client told to let go, and the store complete (facts and faults included),
 * unless it is torn (session_is_torn).
 */
enum session_end session_run(struct session *s, const struct session_limits *limits,
                             struct stop *stop, struct err *e);

/*
 * Whether the client is a process of this host, whose module table is read: the process at the
 * other end of the socket has the id that the client says it has, so it is no tunnel.
 */
bool session_is_local(const struct session *s);

/*
 * Where the paths of a local client lead, if it sees another file system than we do: the caller's,
 * who closes it.
 */
struct process_root session_root(const struct session *s);

/*
 * Reads the module table now, before the caller gives up the right to look into other processes.
 * What is mapped later is then read by path alone. -1 when memory is short.
 */
int session_look(struct session *s, struct err *e);

/* A flight recorder: whether the journal has more than the store. */
bool session_has_dropped(const struct session *s);

/*
 * What arrived last and the journal had no room for, the caller's to free; NULL: it has all. To be
 * called once.
 */
uint8_t *session_take_rest(struct session *s, size_t *len);

/*
 * Whether the store had no room for all that arrived, or is not in order: then the journal has
 * more, if it could.
 */
bool session_lacks(const struct session *s);

/*
 * Whether the store must only be released: a part was begun, which takes memory and spool space,
 * and there was too little. The part before it was saved or is being saved; a flight recorder's
 * journal has what is to be kept.
 */
bool session_is_torn(const struct session *s);

/* Names that the client never told, by kind of query. For the words at the end. */
uint64_t session_unanswered(const struct session *s);

void session_free(struct session *s);

#endif
