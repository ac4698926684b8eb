#pragma once

/* Takes canonical events into the store: the receiving end of the decoder's event_sink. */

#include "protocol/event.h"
#include "trace/store/store.h"

#define INGEST_RECENT_POOLS 16u

struct recent_pool {
    uint64_t key;
    struct pool *pool; /* NULL: empty entry */
};

#define INGEST_RECENT_THREADS 16u

struct recent_thread {
    uint64_t id;
    uint16_t number; /* 0: empty entry */
};

/* 95 % of 2^47 ns, which are 39 hours: server/TracyEvent.hpp Int48 @ v0.14.0. */
#define INGEST_TIME_LIMIT ((INT64_C(1) << 47) / 100 * 95)
#define INGEST_PARTS_MAX 64u
/*
 * Compact a table if at least COMPACT_LEAST elements, and 1 / COMPACT_SHARE of it, can go: fewer
 * are not worth the client's wait.
 */
#define COMPACT_LEAST 4096u
#define COMPACT_SHARE 2u

struct ingest {
    struct trace *trace;
    /* Set from the client's welcome: frees of unknown blocks are expected and no faults. */
    bool unknown_frees_expected;
    /* Set from the client's version: a zone's value is also printed in hexadecimal. */
    bool zone_values_in_hex;
    /*
     * Stop at the first memory fault, as the official server does: the sink then returns ERR_CHECK
     * with that server's name of the failure.
     */
    bool strict;
    /* Samples do not extend the trace: a fact of the client's protocol. */
    bool samples_end_nothing;
    /*
     * The file has 48 bits for a time. At 95 % of that range the ingest calls `part_full` between
     * two events, with all earlier events in the store, to save the trace. The ingest then carries
     * the live blocks over into the next part, which begins at the time of the current event.
     * Without part_full, and after INGEST_PARTS_MAX parts, later times are clamped to the limit and
     * counted.
     */
    int (*part_full)(void *ctx, struct err *e);
    void *part_full_ctx;
    /*
     * The previous part was released and the next one could not begin. The store is inconsistent;
     * like the ingest, it may only be released.
     */
    bool torn;
    unsigned parts;         /* finished parts */
    unsigned parts_asked;   /* of these, parts from ingest_begin_part, which have no limit */
    int64_t time_base;      /* ns; start of this part on the client's clock */
    int64_t time_limit;     /* ns; INGEST_TIME_LIMIT, or less in tests */
    uint64_t time_overflow; /* times beyond the limit */
    /* A cache of threads with memory events, by thread id, that the file lists. */
    struct recent_thread recent_threads[INGEST_RECENT_THREADS];
    struct recent_pool recent_pools[INGEST_RECENT_POOLS]; /* a cache by pool key */
    uint64_t last_location; /* a cache of one entry, empty while its number is 0 */
    int16_t last_location_number;
    struct map custom_sources; /* (function, file) → number */
    struct map custom_frames;  /* (source number, line) → number */
    struct map payloads;       /* hash of a source location payload → its index */
    uint64_t gpu_strays;       /* GPU items without a matching context or open zone */
    struct map fibers;         /* client pointer of a fiber's name → its thread id */
    uint64_t fiber_leaves;     /* of threads that run no fiber */
    bool crashed;
    uint32_t compact_least;     /* removable elements that trigger compaction (tests: fewer) */
    VEC(uint32_t) source_names; /* string numbers, in the order of EVENT_SOURCE_NAME */
    uint64_t recorded_sources;  /* answers, empty ones included, to another server's queries */
    struct event_sink sink;     /* the decoder's event sink */
};

/* `t` must outlive the ingest. Creates the default pool, as in every capture. */
int ingest_init(struct ingest *in, struct trace *t, struct err *e);
void ingest_release(struct ingest *in);

/*
 * Another module that keeps ids of call stacks given out by the sink: calls `visit` for each id,
 * which `visit` may change.
 */
struct ingest_holder {
    void *ctx;
    void (*each)(void *ctx, void (*visit)(void *visit_ctx, uint32_t *id), void *visit_ctx);
};

/*
 * Call it right after ingest_begin_part. If much of the tables whose numbers the file bounds
 * (strings, call stacks, threads, source locations) is no longer needed, the part begins with
 * smaller tables, in which the other elements get new numbers. Known facts about dropped threads
 * and source locations are kept separately, since clients send them only once. After an error the
 * ingest and its store may only be released (`torn`).
 */
int ingest_compact(struct ingest *in, const struct ingest_holder *holder, struct err *e);

/*
 * Finishes the current part and begins the next one, as at the clock's limit: between two events,
 * at the latest time so far. Events with earlier times are moved to the part's beginning. Needs
 * part_full. If that fails, the store is as part_full left it; after any other error it is `torn`.
 */
int ingest_begin_part(struct ingest *in, struct err *e);

/* The latest time so far in any part, in ns on the client's clock. */
int64_t ingest_latest(const struct ingest *in);

/*
 * Call once after the last event: names the stand-ins for data beyond the format's limits, adds the
 * facts about them, and records the memory faults as messages with their call stacks.
 */
int ingest_finish(struct ingest *in, struct err *e);
