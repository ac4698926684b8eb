#pragma once

/*
 * What the files of a session share: session.c begins, loops and ends; session_receive.c takes
 * bytes in and sends queries; session_limits.c has what is checked ten times a second, parts among
 * it.
 */

#include "server/capture/client_memory.h"
#include "server/capture/client_modules.h"
#include "server/capture/pace.h"
#include "server/capture/session.h"

#define PACKETS_SIZE ((size_t)QUERY_SPACE_MAX * QUERY_PACKET_SIZE)
/*
 * Small enough that received bytes stay in the processor's cache until they are decoded; with
 * smaller buffers the kernel makes more calls, more acknowledgements and smaller writes to the
 * journal.
 */
#define RECEIVE_SIZE ((size_t)512 << 10)
#define TICK_MS 100
/* A flight recorder makes a checkpoint for each half of the interval that it keeps. */
#define STRETCHES 2u

struct session {
    int fd;
    uint64_t pid; /* as the client claims */
    struct trace *trace;
    struct journal *journal; /* NULL: no journal is kept */
    struct intake r;
    struct modules modules;
    struct client_memory memory;
    bool lacks_memory;
    long long near_saved; /* monotonic ns of the last save since the client's memory ends; 0 */
    uint8_t *buffer;      /* JOURNAL_HEADROOM bytes, then RECEIVE_SIZE bytes of received data */
    const uint8_t *left;  /* received bytes not decoded yet */
    size_t left_len;
    struct err full; /* why the journal failed; ends the session after the bytes above */
    uint64_t looked; /* decompressed bytes at the last memory check */
    struct pace pace;
    uint8_t *packets; /* queries to be sent */
    size_t packets_len;
    size_t packets_sent;
    bool closed; /* the client closed the connection */

    const struct session_limits *limits;
    struct stop *stop;
    long long began, last_tick; /* monotonic ns */
    uint64_t tick_bytes;
    uint64_t items_seen, answers_seen; /* counts at the times below */
    long long last_item, last_answer;  /* monotonic ns */
    long long drain_until;             /* 0 while not draining */
    long long drain_answer;            /* time of the last answer, or when draining began */
    long long grace;                   /* ns after drain_until to decode what was received */
    enum session_end drain_end;
    long long frame_began;    /* monotonic ns; without an open frame, the time of the last check */
    uint64_t frames_seen;     /* frames at that time */
    long long looped;         /* monotonic ns */
    long long part_began;     /* monotonic ns */
    uint64_t part_bytes;      /* bytes received before the current part */
    uint32_t cuts[STRETCHES]; /* segments with the latest checkpoints, newest first */
    unsigned full_parts;      /* parts begun because a table was nearly full */
    bool dropped;
    size_t rest; /* received bytes, at the end, that the journal lacks */
    const uint8_t *rest_end;
    size_t undecoded;    /* received bytes left at the end */
    bool lacks;          /* some received data is not in the store */
    bool saving;         /* the previous part is being saved */
    uint32_t saving_cut; /* the segment that begins after it; 0: none */
};

/* ---- session_receive.c */

/*
 * Receives and decodes for the length of a turn. Bytes left over from the last turn get a turn
 * without receiving, so that a part can begin after them. 0, or -1 with `e` filled.
 */
int session_receive(struct session *s, struct err *e);

/* Sends as much as the socket takes. A broken socket is noticed when reading. */
void session_send(struct session *s);

/* Sends Terminate and waits a moment if the socket is full: the program's exit waits for it. */
void session_terminate(struct session *s);

/* ---- session_limits.c */

/* Checks the limits, and once in TICK_MS the module table; reports progress. */
int session_tick(struct session *s, long long now, struct err *e);

/* From now on only answers are awaited; the session then ends with `why`. */
void session_begin_drain(struct session *s, long long now, enum session_end why);

/* Whether answers are no longer awaited, and received bytes decoded or too slow to decode. */
bool session_must_end(const struct session *s, long long now);

/*
 * Keeps the memory limit by spilling. If that does not suffice, the session ends. -1: no room in
 * the spool.
 */
int session_keep_memory(struct session *s, long long now, struct err *e);

/*
 * Whether a table of the store is close to the limit of the file format. A flight recorder is
 * exempt, since what it keeps is renumbered at the end.
 */
bool session_is_full(const struct session *s);

/* Saves a part when the format's clock is at its end. The ingest calls it; `ctx` is the session. */
int session_part_full(void *ctx, struct err *e);

/* Adds the facts of the end to the store. If that fails, the journal has more than the store. */
int session_finish_store(struct session *s, enum session_end end, const struct err *cause,
                         struct err *e);

/* Adds modules that the client has mapped last to the store, which is about to be saved. */
int session_last_modules(struct session *s, struct err *e);

void session_report(struct session *s, long long now, bool last);
