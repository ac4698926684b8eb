#pragma once

/*
 * The vocabulary of the file side. A .tracy file is a fixed sequence of lists. Here it is a stream
 * of records in file order; every count is a separate record just before the records that it
 * counts. Values are absolute: the reader decodes the deltas, the writer encodes them.
 *
 *     reader ──records──► sink          sink = loader (→ store), writer (→ file), filter (→ sink)
 *     store  ──records──► writer
 *
 * Layout facts: server/TracyWorker.cpp `Worker::Write` and server/TracyEvent.hpp @ v0.9.1 …
 * v0.14.0.
 *
 * Times are nanoseconds since the trace began, sizes are bytes. "sidx" is a string index: 0 none,
 * else 1 + position in the string list. Callstack indices: 0 none, else 1 + position in the
 * callstack list. Source locations: > 0 index of the expand list, < 0 payload[-1-x].
 */

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/view.h"
#include "trace/file/free_time.h"

/*
 * One row per record type, in file order: RECORD(NAME, struct). `count` rows announce the number of
 * records of the next deeper row(s).
 */
#define RECORD_TYPES(RECORD)                                                                       \
    RECORD(HEADER, header)                                                                         \
    RECORD(PACKAGES, count)                                                                        \
    RECORD(PACKAGE, topology_node)                                                                 \
    RECORD(DIE, topology_node)                                                                     \
    RECORD(CORE, topology_node)                                                                    \
    RECORD(CPU, topology_node)                                                                     \
    RECORD(CRASH, crash)                                                                           \
    RECORD(FRAME_SETS, count)                                                                      \
    RECORD(FRAME_SET, frame_set)                                                                   \
    RECORD(FRAME, frame)                                                                           \
    RECORD(SECTION_LISTS, count)                                                                   \
    RECORD(SECTION_LIST, section_list)                                                             \
    RECORD(SECTION, section)                                                                       \
    RECORD(SECTION_CATEGORIES, count)                                                              \
    RECORD(SECTION_CATEGORY, section_category)                                                     \
    RECORD(STRINGS, count)                                                                         \
    RECORD(STRING, string)                                                                         \
    RECORD(STRING_POINTERS, count)                                                                 \
    RECORD(STRING_POINTER, pair)                                                                   \
    RECORD(THREAD_NAMES, count)                                                                    \
    RECORD(THREAD_NAME, pair)                                                                      \
    RECORD(EXTERNAL_NAMES, count)                                                                  \
    RECORD(EXTERNAL_NAME, external_name)                                                           \
    RECORD(LOCAL_THREADS, count)                                                                   \
    RECORD(LOCAL_THREAD, id)                                                                       \
    RECORD(EXTERNAL_THREADS, count)                                                                \
    RECORD(EXTERNAL_THREAD, id)                                                                    \
    RECORD(SOURCE_LOCATIONS, count)                                                                \
    RECORD(SOURCE_LOCATION, source_location)                                                       \
    RECORD(SOURCE_LOCATION_EXPANDS, count)                                                         \
    RECORD(SOURCE_LOCATION_EXPAND, id)                                                             \
    RECORD(SOURCE_LOCATION_PAYLOADS, count)                                                        \
    RECORD(SOURCE_LOCATION_PAYLOAD, source_location)                                               \
    RECORD(ZONE_STATS, count)                                                                      \
    RECORD(ZONE_STAT, zone_stat)                                                                   \
    RECORD(GPU_ZONE_STATS, count)                                                                  \
    RECORD(GPU_ZONE_STAT, zone_stat)                                                               \
    RECORD(LOCKS, count)                                                                           \
    RECORD(LOCK, lock)                                                                             \
    RECORD(LOCK_THREAD, id)                                                                        \
    RECORD(LOCK_EVENTS, count)                                                                     \
    RECORD(LOCK_EVENT, lock_event)                                                                 \
    RECORD(MESSAGES, count)                                                                        \
    RECORD(MESSAGE, message)                                                                       \
    RECORD(ZONE_EXTRAS, count)                                                                     \
    RECORD(ZONE_EXTRA, zone_extra)                                                                 \
    RECORD(THREADS, threads)                                                                       \
    RECORD(THREAD, thread)                                                                         \
    RECORD(ZONE_BEGIN, zone_begin)                                                                 \
    RECORD(ZONE_END, zone_end)                                                                     \
    RECORD(THREAD_MESSAGES, count)                                                                 \
    RECORD(THREAD_MESSAGE, id)                                                                     \
    RECORD(SWITCH_SAMPLES, count)                                                                  \
    RECORD(SWITCH_SAMPLE, sample)                                                                  \
    RECORD(SAMPLES, count)                                                                         \
    RECORD(SAMPLE, sample)                                                                         \
    RECORD(GPU_CONTEXTS, threads)                                                                  \
    RECORD(GPU_CONTEXT, gpu_context)                                                               \
    RECORD(GPU_NOTE_NAMES, count)                                                                  \
    RECORD(GPU_NOTE_NAME, gpu_note_name)                                                           \
    RECORD(GPU_THREADS, count)                                                                     \
    RECORD(GPU_THREAD, gpu_thread)                                                                 \
    RECORD(GPU_ZONE_BEGIN, gpu_zone_begin)                                                         \
    RECORD(GPU_ZONE_END, gpu_zone_end)                                                             \
    RECORD(GPU_NOTE_QUERIES, count)                                                                \
    RECORD(GPU_NOTE_QUERY, gpu_note_query)                                                         \
    RECORD(GPU_NOTE, gpu_note)                                                                     \
    RECORD(PLOTS, count)                                                                           \
    RECORD(PLOT, plot)                                                                             \
    RECORD(PLOT_POINT, plot_point)                                                                 \
    RECORD(POOLS, pools)                                                                           \
    RECORD(POOL, pool)                                                                             \
    RECORD(MEMORY_EVENT, memory_event)                                                             \
    RECORD(POOL_END, pool_end)                                                                     \
    RECORD(CALLSTACKS, count)                                                                      \
    RECORD(CALLSTACK, callstack)                                                                   \
    RECORD(CALLSTACK_FRAMES, count)                                                                \
    RECORD(CALLSTACK_FRAME, callstack_frame)                                                       \
    RECORD(APP_INFOS, count)                                                                       \
    RECORD(APP_INFO, string_ref)                                                                   \
    RECORD(FRAME_IMAGE_DICT, blob)                                                                 \
    RECORD(FRAME_IMAGES, count)                                                                    \
    RECORD(FRAME_IMAGE, frame_image)                                                               \
    RECORD(CONTEXT_SWITCH_THREADS, count)                                                          \
    RECORD(CONTEXT_SWITCH_THREAD, id_count)                                                        \
    RECORD(CONTEXT_SWITCH, context_switch)                                                         \
    RECORD(CPU_SWITCH_LISTS, count)                                                                \
    RECORD(CPU_SWITCH_LIST, count)                                                                 \
    RECORD(CPU_SWITCH, cpu_switch)                                                                 \
    RECORD(TID_TO_PIDS, count)                                                                     \
    RECORD(TID_TO_PID, pair)                                                                       \
    RECORD(CPU_THREADS, count)                                                                     \
    RECORD(CPU_THREAD, cpu_thread)                                                                 \
    RECORD(SYMBOLS, symbols)                                                                       \
    RECORD(SYMBOL, symbol)                                                                         \
    RECORD(SYMBOL_CODES, count)                                                                    \
    RECORD(SYMBOL_CODE, symbol_code)                                                               \
    RECORD(CODE_SYMBOLS, count)                                                                    \
    RECORD(CODE_SYMBOL, pair)                                                                      \
    RECORD(HW_SAMPLES, count)                                                                      \
    RECORD(HW_SAMPLE, id)                                                                          \
    RECORD(HW_SAMPLE_LIST, count)                                                                  \
    RECORD(HW_SAMPLE_TIME, time)                                                                   \
    RECORD(SOURCE_FILES, count)                                                                    \
    RECORD(SOURCE_FILE, source_file)

enum record_type {
#define RECORD(NAME, STRUCT) REC_##NAME,
    RECORD_TYPES(RECORD)
#undef RECORD
        REC_TYPE_COUNT
};

struct rec_count {
    uint64_t n;
};

struct rec_id {
    uint64_t id;
};

struct rec_id_count {
    uint64_t id;
    uint64_t n;
};

struct rec_pair {
    uint64_t key;
    uint64_t value;
};

struct rec_time {
    int64_t time;
};

struct rec_blob {
    struct view bytes;
};

/* A reference to a string: none, by client pointer, or by index (0-based). */
enum string_ref_kind {
    STRING_REF_POINTER = 2,
    STRING_REF_INDEX = 3,
};

struct rec_string_ref {
    uint64_t value;
    uint8_t flags; /* as in the file: bit 0 index, bit 1 active; 0: none */
};

struct rec_header {
    uint32_t version; /* major << 16 | minor << 8 | patch; the writer sets its own */
    int64_t delay;    /* ns; only in files before 0.12.3 */
    int64_t resolution;
    double timer_mul;
    int64_t last_time;
    uint64_t frame_offset;
    uint64_t pid;
    int64_t sampling_period;
    uint8_t cpu_arch;
    uint32_t cpu_id;
    char cpu_manufacturer[12];
    uint8_t on_demand;
    struct view capture_name;
    struct view capture_program;
    uint64_t capture_time; /* unix seconds */
    uint64_t executable_time;
    struct view host_info;
};

/* A package, die, core or cpu with the number of nodes below it (0 for a cpu). */
struct rec_topology_node {
    uint32_t id;
    uint64_t n;
};

struct rec_crash {
    uint64_t thread;
    int64_t time;
    uint64_t message; /* client pointer */
    uint32_t callstack;
};

struct rec_frame_set {
    uint64_t name; /* client pointer; 0: the base set */
    uint8_t continuous;
    uint64_t n;
};

struct rec_frame {
    int64_t start;
    int64_t end;   /* -1 in continuous sets, where a frame ends at the start of the next */
    int32_t image; /* index of a frame image or -1 */
};

struct rec_section_list {
    uint16_t category;
    uint64_t n;
};

struct rec_section {
    int64_t start;
    int64_t end;
    uint32_t text; /* sidx */
};

struct rec_section_category {
    uint16_t category;
    uint32_t description; /* sidx */
};

struct rec_string {
    uint64_t key;
    struct view text;
};

struct rec_external_name {
    uint64_t id;
    uint64_t program_key;
    uint64_t thread_key;
};

struct rec_source_location {
    uint64_t pointer; /* SOURCE_LOCATION only */
    struct rec_string_ref name;
    struct rec_string_ref function;
    struct rec_string_ref file;
    uint32_t line;
    uint32_t color;
};

struct rec_zone_stat {
    int16_t srcloc;
    uint64_t n;
};

struct rec_lock {
    uint32_t id;
    uint32_t custom_name; /* sidx */
    int16_t srcloc;
    uint8_t type;
    uint8_t valid;
    int64_t time_announce;
    int64_t time_terminate;
    uint64_t n; /* threads */
};

struct rec_lock_event {
    int64_t time;
    int16_t srcloc;
    uint8_t thread; /* index in the lock's thread list */
    uint8_t event;
};

struct rec_message {
    uint64_t key;
    int64_t time;
    struct rec_string_ref text;
    uint32_t color;
    uint32_t callstack;
    uint8_t source;   /* from 0.13.2 */
    uint8_t severity; /* from 0.13.2 */
};

struct rec_zone_extra {
    uint32_t callstack;
    uint32_t text; /* sidx */
    uint32_t name; /* sidx */
    uint32_t color;
};

/* THREADS and GPU_CONTEXTS: the totals that precede them. */
struct rec_threads {
    uint64_t zones;
    uint64_t child_lists;
    uint64_t n;
};

struct rec_thread {
    uint64_t id;
    uint64_t zones;
    uint64_t kernel_samples;
    uint8_t is_fiber;
    int32_t group_hint; /* from 0.11.1 */
    uint32_t n;         /* root zones */
};

struct rec_zone_begin {
    int16_t srcloc;
    int64_t start;
    uint32_t extra;
    uint32_t n; /* children */
};

struct rec_zone_end {
    int64_t end; /* -1: never ended */
};

struct rec_sample {
    int64_t time;
    uint32_t callstack;
};

struct rec_gpu_context {
    uint64_t thread;
    uint8_t calibration;
    uint64_t zones;
    float period;
    uint8_t type;
    uint32_t name; /* sidx */
    uint64_t overflow;
};

struct rec_gpu_note_name {
    int64_t id;
    uint32_t name; /* sidx */
};

struct rec_gpu_thread {
    uint64_t id;
    uint64_t n; /* root zones */
};

struct rec_gpu_zone_begin {
    int64_t cpu_start;
    int64_t gpu_start;
    int16_t srcloc;
    uint32_t callstack;
    uint16_t thread; /* local thread index */
    uint64_t n;      /* children */
};

struct rec_gpu_zone_end {
    int64_t cpu_end;
    int64_t gpu_end;
    uint16_t query_id; /* from 0.12.4 */
};

struct rec_gpu_note_query {
    uint16_t query_id;
    uint64_t n;
};

struct rec_gpu_note {
    int64_t id;
    double value;
};

struct rec_plot {
    uint8_t type;
    uint8_t format;
    uint8_t show_steps;
    uint8_t fill;
    uint32_t color;
    uint64_t name; /* client pointer */
    double min;
    double max;
    double sum;
    uint64_t n;
};

struct rec_plot_point {
    int64_t time;
    double value;
};

struct rec_pools {
    uint64_t n;
    uint64_t events; /* of all pools */
};

struct rec_pool {
    uint64_t key; /* 0: default pool, else client pointer of its name */
    uint64_t events;
    uint64_t active;
    uint64_t frees;
};

/* Bytes of a memory event in files of any version: x_memory_event in codec.c. */
#define MEMORY_EVENT_SIZE 42u

struct rec_memory_event {
    uint64_t ptr;
    uint64_t size;
    int64_t time_alloc;
    int64_t time_free; /* NEVER_FREED: still active */
    uint32_t callstack_alloc;
    uint32_t callstack_free;
    uint16_t thread_alloc; /* local thread index */
    uint16_t thread_free;
};

struct rec_pool_end {
    uint64_t high;
    uint64_t low;
    uint64_t usage;
    uint64_t name; /* equals the pool's key */
};

/* Frames are frame ids as in the file, innermost first. */
struct rec_callstack {
    const uint64_t *frames;
    uint16_t len;
};

struct rec_inline_frame {
    uint32_t name; /* sidx */
    uint32_t file; /* sidx */
    uint32_t line;
    uint64_t symbol;
};

/* The functions of a frame id, innermost inlined function first. */
struct rec_callstack_frame {
    uint64_t frame;
    uint32_t image; /* sidx */
    uint8_t n;
    const struct rec_inline_frame *inlines;
};

/* A frame image's w*h/2 bytes of BC1 blocks arrive in `bytes`. */
struct rec_frame_image {
    uint16_t w;
    uint16_t h;
    uint8_t flip;
    struct view bytes;
};

struct rec_context_switch {
    int64_t wakeup;
    int64_t start;
    int64_t end;
    uint8_t cpu;
    int8_t reason;
    int8_t state;
    uint64_t thread;
    uint8_t wakeup_cpu; /* from 0.11.3 */
};

struct rec_cpu_switch {
    int64_t start;
    int64_t end;
    uint16_t thread; /* external thread index */
};

struct rec_cpu_thread {
    uint64_t tid;
    int64_t running_time;
    uint32_t running_regions;
    uint32_t migrations;
};

struct rec_symbols {
    uint64_t regular;
    uint64_t inlined;
    uint64_t n;
};

struct rec_symbol {
    uint64_t address;
    uint32_t name;
    uint32_t file;
    uint32_t line;
    uint32_t image;
    uint32_t call_file;
    uint32_t call_line;
    uint8_t is_inline;
    uint32_t size;
};

struct rec_symbol_code {
    uint64_t address;
    struct view bytes;
};

struct rec_source_file {
    struct view path;
    struct view bytes;
};

/*
 * Takes records in file order. `recs` points to `n` structures of the type's struct; n > 1 only for
 * fixed-size leaf records, of which a reader passes whole batches. Views are valid only during the
 * call. Returns 0, or -1 with `e` filled to stop the stream.
 */
struct record_sink {
    void *ctx;
    int (*put)(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e);
};

static inline int record_put(const struct record_sink *s, enum record_type type, const void *recs,
                             size_t n, struct err *e)
{
    return s->put(s->ctx, type, recs, n, e);
}

/* sizeof of a record type's struct; the type's name in lower case, for messages. */
size_t record_size(enum record_type type);
const char *record_name(enum record_type type);
