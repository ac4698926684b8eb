#pragma once

/*
 * Canonical events: the client's events in one form for all protocol numbers. The decoder
 * (protocol/decoder.h) produces them in stream order; trace/ingest/ingest.h adds them to the store.
 * The decoder has already resolved the encoding of the wire: time deltas are summed and converted,
 * strings and payloads sent ahead are attached to their item, fibers replace the thread that they
 * run on, and pointers have no tags.
 *
 * Times are nanoseconds since the client's initBegin. `thread` is the thread id; fibers have ids
 * from 2^32 up. Pointers are the client's addresses, used as keys only. Views are valid during the
 * call. Source of the facts: server/TracyWorker.cpp `Worker::Process*` @ v0.9.1 … v0.14.0.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/view.h"

enum event_kind {
    /* memory: event.mem */
    EVENT_MEM_ALLOC,
    EVENT_MEM_FREE,
    EVENT_MEM_DISCARD,
    /* zones: event.zone (srcloc, callstack), .text, .number */
    EVENT_ZONE_BEGIN,
    EVENT_ZONE_END,
    EVENT_ZONE_TEXT,
    EVENT_ZONE_NAME,
    EVENT_ZONE_COLOR,
    EVENT_ZONE_VALUE,
    EVENT_ZONE_VALIDATION,
    /* event.message; APP_INFO has text only */
    EVENT_MESSAGE,
    EVENT_APP_INFO,
    /* frames: event.frame_mark; FRAME_VSYNC's id is in frame_mark.name; event.image */
    EVENT_FRAME_MARK,
    EVENT_FRAME_START,
    EVENT_FRAME_END,
    EVENT_FRAME_VSYNC,
    EVENT_FRAME_IMAGE,
    /* event.plot, event.plot_config */
    EVENT_PLOT,
    EVENT_PLOT_CONFIG,
    /* event.lock */
    EVENT_LOCK_ANNOUNCE,
    EVENT_LOCK_TERMINATE,
    EVENT_LOCK_WAIT,
    EVENT_LOCK_OBTAIN,
    EVENT_LOCK_RELEASE,
    EVENT_LOCK_MARK,
    EVENT_LOCK_NAME,
    /* event.gpu_context, event.gpu */
    EVENT_GPU_CONTEXT,
    EVENT_GPU_CONTEXT_NAME,
    EVENT_GPU_ZONE_BEGIN,
    EVENT_GPU_ZONE_END,
    EVENT_GPU_TIME,
    EVENT_GPU_CALIBRATION,
    EVENT_GPU_TIME_SYNC,
    EVENT_GPU_NOTE_NAME,
    EVENT_GPU_NOTE,
    /* event.fiber */
    EVENT_FIBER_ENTER,
    EVENT_FIBER_LEAVE,
    EVENT_THREAD_GROUP_HINT,
    /* event.section */
    EVENT_SECTION_SETUP,
    EVENT_SECTION_ENTER,
    EVENT_SECTION_LEAVE,
    /* event.sched, event.pair, event.sample */
    EVENT_CONTEXT_SWITCH,
    EVENT_THREAD_WAKEUP,
    EVENT_TID_TO_PID,
    EVENT_SAMPLE,
    EVENT_SWITCH_SAMPLE,
    EVENT_HW_SAMPLE,
    /* event.number_f, event.power, event.topology, event.param, event.crash */
    EVENT_SYS_TIME,
    EVENT_SYS_POWER,
    EVENT_CPU_TOPOLOGY,
    EVENT_PARAM,
    EVENT_CRASH_REPORT,
    EVENT_CRASH,
    /* answers to queries: event.name (key, text), event.srcloc_reply, event.frames, event.symbol */
    EVENT_STRING,
    EVENT_THREAD_NAME,
    EVENT_PLOT_NAME,
    EVENT_FRAME_NAME,
    EVENT_FIBER_NAME,
    EVENT_EXTERNAL_NAME,        /* process name */
    EVENT_EXTERNAL_THREAD_NAME, /* thread name */
    EVENT_SOURCE_LOCATION,
    EVENT_CALLSTACK_FRAME,
    EVENT_SYMBOL,
    EVENT_SYMBOL_CODE,
    EVENT_SOURCE_CODE,
    EVENT_SOURCE_CODE_MISSING,
    /*
     * Source files in the order in which they are queried, if at all: key counts from 0. In answers
     * to Tidemark's queries, EVENT_SOURCE_OURS is added to the key. A recording of an official
     * server's session has plain keys, provided that the server had none of the files locally.
     */
    EVENT_SOURCE_NAME,
    /* events of the session; no payload */
    EVENT_TERMINATE,
    EVENT_KEEP_ALIVE,
    EVENT_KIND_COUNT
};

#define EVENT_SOURCE_OURS ((uint64_t)1 << 30)

/* A source location that precedes its zone (srcloc payload) or answers a query. */
struct event_location {
    struct view name;
    struct view function;
    struct view file;
    uint32_t line;
    uint32_t color;
};

/* One function of an answered frame. With inlined calls there are several, innermost first. */
struct event_inline {
    struct view function;
    struct view file;
    uint32_t line;
    uint64_t symbol;
    uint32_t symbol_len;
};

struct event {
    enum event_kind kind;
    uint32_t callstack; /* the sink's id, 0: none; for kinds that can have one */
    uint64_t thread;    /* thread or fiber, for kinds that have one */
    int64_t time;       /* ns, for items that have a time */
    union {
        struct {
            uint64_t pool; /* client pointer of the pool's name; 0: default pool */
            uint64_t ptr;
            uint64_t size; /* bytes; ALLOC only */
        } mem;
        struct {
            uint64_t srcloc;                      /* client pointer; 0 when `payload` is set */
            const struct event_location *payload; /* else NULL */
        } zone;
        struct view text; /* ZONE_TEXT, ZONE_NAME, APP_INFO */
        uint64_t number;  /* ZONE_VALUE; ZONE_COLOR 0xRRGGBB; ZONE_VALIDATION id */
        struct {
            uint64_t literal; /* client pointer of the text; 0 when `text` carries it */
            struct view text;
            uint32_t color;   /* 0xRRGGBB; 0xFFFFFF for a message without colour */
            uint8_t source;   /* 0 user, 1 tracy */
            uint8_t severity; /* 0 trace … 5 fatal; 2 when the protocol has none */
        } message;
        struct {
            uint64_t name; /* client pointer; 0 = base set */
        } frame_mark;
        struct {
            uint32_t frame;
            uint16_t w, h;
            uint8_t flip;
            struct view bytes; /* BC1 blocks as the client sent them */
        } image;
        struct {
            uint64_t name;
            double value; /* as sent; may be NaN or infinite */
        } plot;
        struct {
            uint64_t name;
            uint8_t type, step, fill;
            uint32_t color;
        } plot_config;
        struct {
            uint32_t id;
            uint8_t type;     /* ANNOUNCE: 0 exclusive, 1 shared */
            bool shared;      /* WAIT, OBTAIN, RELEASE */
            bool has_thread;  /* false for the exclusive RELEASE */
            uint64_t srcloc;  /* ANNOUNCE, MARK: client pointer */
            struct view text; /* NAME */
        } lock;
        struct {
            int64_t gpu_time;
            float period;
            uint8_t context, flags, type;
        } gpu_context;
        struct {
            uint8_t context;
            uint16_t query;
            bool serial;
            uint64_t srcloc;
            const struct event_location *payload;
            uint64_t caller;   /* ZONE_BEGIN that uses the call stack of a thread: that thread */
            int64_t gpu_time;  /* TIME, CALIBRATION, TIME_SYNC: raw GPU ticks */
            int64_t cpu_delta; /* CALIBRATION: ns (not ticks) */
            int64_t note;      /* NOTE, NOTE_NAME */
            double value;      /* NOTE */
            struct view text;  /* CONTEXT_NAME, NOTE_NAME */
        } gpu;
        struct {
            uint64_t fiber;  /* client pointer of its name */
            uint64_t thread; /* the OS thread; event.thread is the fiber's id (ENTER) */
            int32_t group_hint;
        } fiber; /* also THREAD_GROUP_HINT (group_hint) */
        struct {
            uint32_t id;
            uint16_t category;
            struct view text;
        } section;
        struct {
            uint32_t old_thread, new_thread;
            uint8_t cpu, reason, state, previous_cstate;
            int8_t new_priority, old_priority;
            int8_t adjust_reason, adjust_increment; /* THREAD_WAKEUP */
            bool has_cpu;                           /* THREAD_WAKEUP: the item names the cpu */
        } sched;
        struct {
            uint64_t key;
            uint64_t value;
        } pair; /* TID_TO_PID: tid, pid */
        struct {
            uint64_t ip;
            uint8_t counter; /* 0 cycles, 1 retired, 2 cache ref, 3 cache miss, 4 branch, 5 branch
                                miss */
            bool no_time;
        } hw;            /* HW_SAMPLE */
        double number_f; /* SYS_TIME: percent */
        struct {
            uint64_t name;
            uint64_t delta; /* microjoules */
        } power;
        struct {
            uint32_t package, die, core, cpu;
        } topology;
        struct {
            uint32_t id;
            uint64_t name;
            uint8_t type;
            int32_t value;
        } param;
        struct {
            uint64_t text; /* client pointer */
        } crash;
        struct {
            uint64_t key;
            struct view text;
        } name; /* STRING … EXTERNAL_THREAD_NAME, SYMBOL_CODE, SOURCE_CODE (text = bytes) */
        struct {
            uint64_t pointer;              /* the key the query was for */
            uint64_t name, function, file; /* client pointers of strings */
            uint32_t line;
            uint32_t color;
        } srcloc_reply;
        struct {
            uint64_t address;
            struct view image;
            uint8_t n;
            uint8_t skip; /* leading functions that the official server drops: library wrappers */
            const struct event_inline *inlines;
        } frames; /* CALLSTACK_FRAME */
        struct {
            uint64_t address;
            struct view file;
            uint32_t line;
        } symbol;
    };
};

/*
 * A single allocation or free, at less than half the size of struct event: most of a stream
 * consists of these. Fields are those of struct event.
 */
struct memory_event {
    enum event_kind kind; /* EVENT_MEM_ALLOC or EVENT_MEM_FREE */
    uint32_t callstack;
    uint64_t thread;
    int64_t time;
    uint64_t pool;
    uint64_t ptr;
    uint64_t size;
};

static inline struct event event_of_memory(const struct memory_event *m)
{
    return (struct event){.kind = m->kind,
                          .callstack = m->callstack,
                          .thread = m->thread,
                          .time = m->time,
                          .mem = {.pool = m->pool, .ptr = m->ptr, .size = m->size}};
}

static inline struct memory_event memory_of_event(const struct event *ev)
{
    return (struct memory_event){.kind = ev->kind,
                                 .callstack = ev->callstack,
                                 .thread = ev->thread,
                                 .time = ev->time,
                                 .pool = ev->mem.pool,
                                 .ptr = ev->mem.ptr,
                                 .size = ev->mem.size};
}

/* A frame id holds 62 bits of an address; the upper two bits mark client-made frames. */
#define FRAME_ADDRESS_MASK (UINT64_MAX >> 2)

/* A call stack as sent by a client. */
struct sent_callstack {
    const void *addresses; /* 8 bytes each, innermost first */
    uint32_t n;            /* ≥ 1 */
    uint32_t id;           /* the id found; 0: not found */
};

/* The receiver of events. All functions return 0 (or an id), or -1 with `e` to end the stream. */
struct event_sink {
    void *ctx;
    int (*event)(void *ctx, const struct event *ev, struct err *e);
    /*
     * Takes `n` ≥ 1 memory events in order; batches let the sink prefetch. NULL: they go to `event`
     * one by one.
     */
    int (*memory)(void *ctx, const struct memory_event *events, size_t n, struct err *e);
    /*
     * Interns a call stack of `n` ≥ 1 frame ids, innermost first, and returns its id (≥ 1) in *id.
     * A frame id is a client address without its top two bits, or a value from custom_frame. *fresh
     * is set for a new stack; the decoder then queries its unknown frames.
     */
    int (*callstack)(void *ctx, const uint64_t *frames, uint32_t n, uint32_t *id, bool *fresh,
                     struct err *e);
    /*
     * Looks up `n` ≥ 1 call stacks at once and sets the id of each, or 0 if this look-up does not
     * find it; the decoder then calls `callstack`. NULL: it calls `callstack` for all.
     */
    void (*find_callstacks)(void *ctx, struct sent_callstack *stacks, size_t n);
    /* Returns the frame id (bit 62 set) of a frame that the client describes in full (scripts). */
    int (*custom_frame)(void *ctx, struct view function, struct view file, uint32_t line,
                        uint64_t *frame, struct err *e);
};
