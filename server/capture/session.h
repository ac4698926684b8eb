#pragma once

/*
 * Records one client: socket → wire frames → events → store, and queries back, until the client
 * ends or vanishes, sends bytes that cannot be decoded, or a stop is requested. All received data
 * is in the store then, unless session_lacks.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "proc/look_times.h"
#include "server/capture/intake.h"
#include "server/capture/journal.h"
#include "server/capture/memory_limit.h"
#include "server/net/connect_client.h"
#include "server/net/stop.h"
#include "symbols/place/process_root.h"
#include "trace/store/store.h"

struct capture; /* server/capture/capture_save.h */

/* Figures for a progress line. */
struct session_progress {
    double seconds;          /* since the connection */
    double bytes_per_second; /* received, over the last interval */
    double compression;      /* compressed / uncompressed, 0 … 1 */
    uint64_t bytes_in;       /* received in total */
    uint64_t memory_events;  /* allocations and frees of all pools, in total */
    uint64_t live_allocations;
    uint64_t live_bytes;
    uint64_t client_resident; /* RSS of the client's process; 0: not known */
    int64_t last_time;        /* ns on the client's clock */
    uint32_t queries;         /* queued or unanswered */
    bool last;                /* no further bytes will arrive */
};

struct session_limits {
    double seconds;              /* time limit; < 0: none */
    uint64_t memory_bytes;       /* stop when this process holds more; 0: no limit */
    struct memory_limit *memory; /* kept by spilling; NULL: none */
    uint64_t max_bytes;          /* limit of received bytes; 0: none */
    double rotate_seconds;       /* length of a part; 0: no limit */
    uint64_t rotate_bytes;       /* received bytes of a part; 0: no limit */
    bool *turn;                  /* set to request a new part, and cleared then; NULL: never */
    /*
     * Flight recorder: data older than the time or the bytes above is dropped from the store and
     * from the journal, which must exist. The store has only the newest interval; the journal has
     * all that is to be kept (session_has_dropped).
     */
    bool forget;
    double frame_seconds;  /* timeout of an unfinished frame; 0: none */
    double drain_seconds;  /* after a stop: how long to wait for all answers */
    double silent_seconds; /* after a stop: how long to wait for the next answer */
    double quiet_seconds;  /* after the client's end: how long to wait for the next sign of life */
    /*
     * Saves the store, which has all facts, as a part (capture_save_part) when the format's clock
     * (39 hours) is at its end, a table is close to the limit of the file format, or a rotation is
     * due; the session then goes on with the live allocations. Saves what a flight recorder keeps
     * when it is asked to (`turn`). NULL: there are no parts; later times are clamped and counted.
     */
    struct capture *parts;
    void *progress_ctx;
    void (*progress)(void *ctx, const struct session_progress *p); /* about ten times a second */
};

struct session; /* opaque */

struct session_options {
    bool strict;        /* end at the first memory fault */
    bool as_released;   /* behave as the server of the client's release does, not as a later one */
    bool figures;       /* keep no memory events (analysis/figures/figures_only.h) */
    bool no_code;       /* do not query machine code or the lines of its instructions */
    bool no_sources;    /* do not query the texts of source files */
    uint64_t memory_hz; /* readings of a local client's memory per second; 0: none */
    bool no_resident;   /* do not look at the pages of a local client */
    struct look_wishes looks; /* … also then: requests are stop.asked[STOP_LOOK] */
    /*
     * Do not query symbols of call stack frames: they will be resolved here. A client whose module
     * table cannot be read is queried after all (session_is_local).
     */
    bool no_symbols;
    /* Receives all bytes before they are decoded; outlives the session. NULL: none. */
    struct journal *journal;
    /* A connection to a sampler (server/guard/sampler.h), which outlives the session. NULL: none.
     */
    const int *sampler;
};

/*
 * Makes a session over a connection, which it takes over (also on failure). The store was just
 * initialised and outlives the session. NULL when memory is short.
 */
struct session *session_new(struct connection *c, struct trace *t,
                            const struct session_options *options, struct err *e);

/*
 * Runs to the end. `e` holds the cause for BROKEN, FAULT, NO_ROOM and HOMELESS. Afterwards the
 * client has been sent Terminate, the connection is closed, and the store is complete (facts and
 * faults included), unless it is torn (session_is_torn).
 */
enum session_end session_run(struct session *s, const struct session_limits *limits,
                             struct stop *stop, struct err *e);

/*
 * Whether the client is a process of this host whose module table is read. The owner of the
 * socket's other end must have the pid that the client claims, which rules out a tunnel.
 */
bool session_is_local(const struct session *s);

/* Whether readings of the client's memory are wanted, but its process cannot be read. */
bool session_lacks_memory(const struct session *s);

/* Prints the chosen times of looks that were not reached. */
void session_note_looks(const struct session *s);

/*
 * The root of a local client's paths, if it sees another file system than this process. The caller
 * closes it.
 */
struct process_root session_root(const struct session *s);

/*
 * Reads the module table now, before the caller gives up the right to read other processes. Later
 * mappings are then read by path alone. -1 when memory is short.
 */
int session_look(struct session *s, struct err *e);

/* Flight recorder: whether the journal has more than the store. */
bool session_has_dropped(const struct session *s);

/*
 * The last received bytes, for which the journal had no room; the caller frees them. NULL: there
 * are none. Call it once.
 */
uint8_t *session_take_rest(struct session *s, size_t *len);

/*
 * Whether the store lacks received data or is inconsistent. The journal then has more, unless its
 * disk was full.
 */
bool session_lacks(const struct session *s);

/*
 * The last received bytes, in number, that were not decoded: memory was beyond its limit, or they
 * took too long. The store lacks them.
 */
size_t session_undecoded(const struct session *s);

/*
 * Whether the store must only be released: memory or spool space was too short to begin a part. The
 * part before it was saved or is being saved; a flight recorder's journal has all that is to be
 * kept.
 */
bool session_is_torn(const struct session *s);

/* Names that the client never sent, by kind of query. For the final message. */
uint64_t session_unanswered(const struct session *s);

void session_free(struct session *s);
