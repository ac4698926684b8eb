#ifndef TIDEMARK_TRACE_INGEST_INGEST_H
#define TIDEMARK_TRACE_INGEST_INGEST_H

/*
 * Canonical events into the store: the other end of the decoder's event_sink.
 */

#include "protocol/event.h"
#include "trace/store/store.h"

#define INGEST_RECENT_POOLS 16u

struct recent_pool {
    uint64_t key;
    struct pool *pool; /* NULL: none known */
};

#define INGEST_RECENT_THREADS 16u

struct recent_thread {
    uint64_t id;
    uint16_t number; /* 0: none known */
};

/* 95 % of 2^47 ns, which are 39 hours: server/TracyEvent.hpp Int48 @ v0.14.0. */
#define INGEST_TIME_LIMIT ((INT64_C(1) << 47) / 100 * 95)
#define INGEST_PARTS_MAX 64u
/* Elements of a table, and their share, that are worth the time in which the client waits. */
#define COMPACT_LEAST 4096u
#define COMPACT_SHARE 2u

struct ingest {
    struct trace *trace;
    /* Set from the client's welcome: frees of unknown blocks are expected, not faults. */
    bool unknown_frees_expected;
    /* Set from the client's version: a zone's value is said in hexadecimal, too. */
    bool zone_values_in_hex;
    /*
     * End at the first memory fault, as the official server does: the sink then returns ERR_CHECK
     * with that server's name of the failure.
     */
    bool strict;
    /* Samples do not make the trace last longer: a fact of the client's protocol. */
    bool samples_end_nothing;
    /*
     * The file has 48 bits for a time: at 95 % of them `part_full` is called, between two events,
     * with everything until then in the store. It saves the trace; the ingest then carries the live
     * blocks over into the next part, which begins at the time of the event at hand. With no
     * part_full, and after INGEST_PARTS_MAX parts, later times become the limit and are counted.
     */
    int (*part_full)(void *ctx, struct err *e);
    void *part_full_ctx;
    /*
     * The part before was let go of, and the next one could not be begun: the store has some of
     * either, and must, like the ingest, only be released.
     */
    bool torn;
    unsigned parts;         /* finished */
    unsigned parts_asked;   /* of these, by ingest_begin_part: without a limit */
    int64_t time_base;      /* ns; where this part begins on the client's clock */
    int64_t time_limit;     /* ns; INGEST_TIME_LIMIT, or less in tests */
    uint64_t time_overflow; /* times that did not fit */
    /* Of memory events, by the threads' ids: those that the file has. */
    struct recent_thread recent_threads[INGEST_RECENT_THREADS];
    struct recent_pool recent_pools[INGEST_RECENT_POOLS]; /* a cache, by the pools' keys */
    uint64_t last_location; /* a cache of one, empty while its number is 0 */
    int16_t last_location_number;
    struct map custom_sources; /* (function, file) → number */
    struct map custom_frames;  /* (source number, line) → number */
    struct map payloads;       /* hash of a source location payload → its index */
    uint64_t gpu_strays;       /* GPU items that fit no context or no open zone */
    struct map fibers;         /* client pointer of a fiber's name → its thread id */
    uint64_t fiber_leaves;     /* of threads that run no fiber */
    bool crashed;
    uint32_t compact_least;     /* elements that must go for it; COMPACT_LEAST, or less in tests */
    VEC(uint32_t) source_names; /* string numbers, in the order of EVENT_SOURCE_NAME */
    uint64_t recorded_sources;  /* answers, also empty ones, to another server's questions */
    struct event_sink sink;     /* give this to the decoder */
};

/* `t` must outlive the ingest. The default pool is made at once, as in every capture. */
int ingest_init(struct ingest *in, struct trace *t, struct err *e);
void ingest_release(struct ingest *in);

/*
 * Call stacks that somebody else knows by their ids, since the sink gave them out: calls `visit`
 * for each, which may change it.
 */
struct ingest_holder {
    void *ctx;
    void (*each)(void *ctx, void (*visit)(void *visit_ctx, uint32_t *id), void *visit_ctx);
};

/*
 * Right behind ingest_begin_part: when much of the tables whose numbers the file bounds (strings,
 * call stacks, threads, source locations) is not needed any more, the part begins with smaller
 * ones, in which the rest has other numbers. What was told of threads and source locations that
 * have no place now is kept beside them, since no client tells it twice. On an error the ingest and
 * its store must only be released (`torn`).
 */
int ingest_compact(struct ingest *in, const struct ingest_holder *holder, struct err *e);

/*
 * Finishes the part at hand and begins the next one, as at the end of the clock: between two
 * events, at the latest time so far. What comes with an earlier time is put at the part's
 * beginning. Needs part_full: when that fails the store is as it left it, on any other error
 * `torn`.
 */
int ingest_begin_part(struct ingest *in, struct err *e);

/* The latest time so far, in ns on the client's clock, whichever part it is in. */
int64_t ingest_latest(const struct ingest *in);

/*
 * To be called once after the last event: names the stand-ins for what was beyond the format's
 * limits, adds the facts about it, and records the memory faults as messages with their call
 * stacks.
 */
int ingest_finish(struct ingest *in, struct err *e);

#endif
