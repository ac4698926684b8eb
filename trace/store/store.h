#pragma once

/*
 * A trace in memory: the data of a capture or of a loaded file. Tables of names, call stacks and
 * frames are resident; columns of events are file-backed. Objects refer to each other by number,
 * never by pointer.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/map.h"
#include "base/pageable.h"
#include "base/spool.h"
#include "base/vec.h"
#include "base/view.h"
#include "trace/file/limits.h"
#include "trace/store/callstacks.h"
#include "trace/store/frame_images.h"
#include "trace/store/frame_sets.h"
#include "trace/store/gpu_contexts.h"
#include "trace/store/keyed_blobs.h"
#include "trace/store/locks.h"
#include "trace/store/memory.h"
#include "trace/store/messages.h"
#include "trace/store/page_look.h"
#include "trace/store/plots.h"
#include "trace/store/resident_stacks.h"
#include "trace/store/samples.h"
#include "trace/store/sched.h"
#include "trace/store/sections.h"
#include "trace/store/strings.h"
#include "trace/store/system.h"
#include "trace/store/zones.h"

/* Facts about the whole trace, in the file's header. Texts are string numbers. */
struct trace_facts {
    uint32_t file_version; /* of the loaded file; 0 for a capture */
    int64_t resolution;    /* ns */
    double timer_mul;      /* ns per tick */
    int64_t delay;         /* ns */
    int64_t last_time;     /* ns; ≥ every time in the trace */
    int64_t init_end;      /* ns; end of the client's initialisation */
    uint64_t frame_offset;
    uint64_t pid;
    int64_t sampling_period; /* ns */
    uint8_t cpu_arch;
    uint32_t cpu_id;
    char cpu_manufacturer[12];
    bool on_demand;
    int64_t on_demand_time; /* ns; time of the connection to an on-demand client */
    uint32_t capture_name;
    uint32_t program;
    uint32_t host_info;
    uint64_t capture_time;    /* unix seconds */
    uint64_t executable_time; /* unix seconds */
};

struct trace_thread {
    uint64_t id;   /* OS id; fibers from 2^32 up */
    uint32_t name; /* string number; 0: unknown */
    bool is_fiber;
    bool listed; /* has events, so the file's thread list names it */
    bool local;  /* has an entry in the file's table of local threads */
    int32_t group_hint;
};

struct trace_threads {
    VEC(struct trace_thread) list; /* list.at[0] has id 0, as in the file */
    VEC(uint16_t) order;           /* the listed threads, in the order in which they were listed */
    VEC(uint16_t) locals;          /* the local threads, likewise */
    struct map numbers;            /* id → index */
    uint64_t last_id;              /* a cache of one entry */
    uint16_t last_number;
    VEC(struct trace_thread) known; /* of earlier parts, without an entry: names, fibers' groups */
    struct map known_numbers;       /* id → index in known */
    uint32_t limit;                 /* THREADS_MAX, or less in tests */
    uint64_t overflow;              /* look-ups beyond the limit, which returned the last thread */
};

/* In the file, number i + 1 is locations.at[i], and number -1 - i is location_payloads.at[i]. */
struct trace_location {
    uint64_t pointer;
    uint64_t name, function, file; /* client pointers */
    uint32_t line;
    uint32_t color; /* 0xBBGGRR; 0: none */
    bool known;     /* the client has described it */
};

/* A source location sent with its zone. Texts are string numbers. */
struct trace_location_payload {
    uint32_t name, function, file;
    uint32_t line;
    uint32_t color; /* 0xBBGGRR; 0: none */
};

/* The file's value for "no source location". */
#define LOCATION_NONE INT16_MAX

struct trace_symbol {
    uint64_t address;
    uint32_t name, file, line, image, call_file, call_line;
    uint32_t size;
    bool is_inline;
    bool known; /* the client has sent its definition */
};

/* Lengths of the tables whose numbers the file bounds. */
struct trace_lengths {
    size_t strings, callstacks, threads, locations, payloads;
};

struct trace {
    struct spool spool;
    struct spool lasting;     /* of data that all parts of a trace share: code and source texts */
    struct pageable pageable; /* of a loaded trace: table memory beyond a budget */
    size_t memory_budget;     /* see struct trace_options; 0: the default */
    struct trace_facts facts;
    struct strings strings;
    struct trace_threads threads;
    struct callstacks callstacks;
    struct memory memory;
    struct gpu gpu;
    struct zones zones;
    struct messages messages;
    struct frame_sets frame_sets;
    struct frame_images frame_images;
    struct sections sections;
    struct plots plots;
    struct page_looks looks; /* of the process; kept behind the trace, see stored_summary.h */
    struct resident_stacks resident; /* at one of them; kept there, too */
    struct locks locks;
    struct system_facts system;
    struct sched sched;
    struct samples samples;
    VEC(struct trace_location) locations;
    size_t location_limit;                      /* LOCATIONS_MAX, or less in tests */
    uint64_t location_overflow;                 /* dropped locations beyond the limit */
    struct map location_numbers;                /* client pointer → index in locations */
    VEC(struct trace_location) known_locations; /* of earlier parts, without an entry now */
    struct map known_location_numbers;          /* client pointer → index in them */
    VEC(struct trace_location_payload) location_payloads;
    struct trace_lengths carried; /* at the start of the current part */
    VEC(struct trace_symbol) symbols;
    struct map symbol_numbers;       /* address → index in symbols */
    struct map code_symbols;         /* code address → symbol address */
    struct keyed_blobs symbol_codes; /* symbol address → its machine code */
    struct keyed_blobs sources;      /* texts of source files by the number in the answer */
    VEC(uint32_t) source_paths;      /* of the i-th text, set at the end; 0: not saved */
    VEC(uint32_t) app_info;          /* string numbers; Tidemark's facts are "tidemark.KEY=VALUE" */
    char behind[160];                /* of the file, see struct trace_info; "" for a capture */
    /*
     * NULL, or called while a file is read: how many of its bytes were, UINT64_MAX after it. -1
     * ends the reading with `e`.
     */
    int (*loading)(void *ctx, uint64_t file_bytes, struct err *e);
    /* NULL, or called while events in memory are gone through: how many were, of how many. */
    void (*sweeping)(void *ctx, uint64_t done, uint64_t of);
    void *loading_ctx; /* of both */
};

/* Reports to t->sweeping. */
static inline void trace_swept(const struct trace *t, uint64_t done, uint64_t of)
{
    if (t->sweeping)
        t->sweeping(t->loading_ctx, done, of);
}

/* The same for callers that count single blocks: reports few of them. */
static inline void trace_swept_block(const struct trace *t, uint64_t done, uint64_t of)
{
    if (done % 4096 == 0)
        trace_swept(t, done, of);
}

/* Reports to t->loading that the file has been read, or all events gone through. */
static inline void trace_loaded(const struct trace *t)
{
    struct err ignored = {0};
    if (t->loading)
        (void)t->loading(t->loading_ctx, UINT64_MAX, &ignored);
}

#define TRACE_BUDGET ((size_t)80 << 20)
#define TRACE_TABLES_BUDGET ((size_t)64 << 20)

struct trace_options {
    const char *spool_dir; /* NULL: the default of spool_init */
    /*
     * Bytes of event columns kept in memory; 0: TRACE_BUDGET. A loaded trace divides it among
     * columns, tables and pending frees.
     */
    size_t resident_budget;
};

int trace_init(struct trace *t, const struct trace_options *options, struct err *e);
void trace_release(struct trace *t);

/*
 * Lets the tables of a trace that was just initialised take `budget` bytes from the heap. What they
 * take beyond that, the kernel can write to a file. Not for a capture, which forks to save a part.
 */
void trace_page_tables(struct trace *t, size_t budget);

/*
 * The same for a trace that is loaded: the budget is TRACE_TABLES_BUDGET, or a third of the
 * resident budget that was asked for. Events get another third.
 */
int trace_make_pageable(struct trace *t, struct err *e);

/* A limit for struct container_limits; 0: the default. */
uint64_t trace_decoder_budget(const struct trace *t);

/* The allocator that trace_make_pageable set up, or NULL. */
static inline struct pageable *trace_pageable(struct trace *t)
{
    return t->pageable.dir ? &t->pageable : NULL;
}

/*
 * Drops everything but code and source texts, and keeps the limits and the spools' files. Call it
 * when no column holds needed data. After an error the trace may only be released.
 */
int trace_renew(struct trace *t, struct err *e);

struct trace_lengths trace_lengths(const struct trace *t);

/*
 * Whether one of these tables, or that of the threads that CPUs run (trace/store/sched.h), is at
 * `percent` of the file's limit, and at least a tenth of the limit was added since the current part
 * began: another part would have room.
 */
#define TRACE_NEARLY_FULL 95u
bool trace_is_full_to(const struct trace *t, unsigned percent);

/* The number of a thread id, added if new. Beyond 65,536 threads, further ones share the last. */
int trace_thread_number(struct trace *t, uint64_t id, uint16_t *number, struct err *e);

/* Adds the thread to the file's thread list, in order of first calls. */
int trace_list_thread(struct trace *t, uint16_t number, struct err *e);

/*
 * Gives the thread the next entry in the file's table of local threads, if it has none. The
 * official server does so at the first memory event, message, fiber or GPU zone of a thread, and
 * its csvexport shows the positions (server/TracyWorker.cpp CompressThread @ v0.9.1 … v0.14.0).
 */
int trace_local_thread(struct trace *t, uint16_t number, struct err *e);

/* The name of a pool: "default" for key 0, the text at its key, or "0x…" while unknown. */
struct view trace_pool_name(const struct trace *t, const struct pool *p, char room[32]);

/* If there were too many pools: names the pool that collects them, and adds the fact. */
int trace_note_other_pools(struct trace *t, struct err *e);

/* Adds "tidemark.KEY=VALUE" to the app info; VALUE is printf-formatted. */
int trace_add_fact(struct trace *t, struct err *e, const char *key, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/*
 * The profiler's number of frame `index` (from 0) of the main set: an on-demand client's frames
 * continue those before the connection (GetFrameNumber, profiler/src/profiler/TracyView_Utility.cpp
 * @ v0.14.0). Frames of other sets count from 1.
 */
static inline uint64_t trace_frame_number(const struct trace *t, uint64_t index)
{
    uint64_t offset = t->facts.frame_offset;
    return index + (offset ? offset - 1 : 0);
}

/* The value of the n-th fact with that key, or an empty view with p == NULL. */
struct view trace_fact(const struct trace *t, const char *key, unsigned n);

/* The number that the first fact with that key has, or 0. */
uint64_t trace_fact_number(const struct trace *t, const char *key);
