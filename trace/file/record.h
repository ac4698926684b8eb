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
#include "trace/file/store_records.h"

/*
 * One row per record type, in file order: RECORD(NAME, struct, name for messages). `count` rows
 * announce the number of records of the next deeper row(s), after which they are named.
 */
/* clang-format off */
#define RECORD_TYPES(RECORD) \
    RECORD(HEADER, header, "header") \
    RECORD(PACKAGES, count, "packages") \
    RECORD(PACKAGE, topology_node, "package") \
    RECORD(DIE, topology_node, "die") \
    RECORD(CORE, topology_node, "core") \
    RECORD(CPU, topology_node, "processor") \
    RECORD(CRASH, crash, "crash") \
    RECORD(FRAME_SETS, count, "frame sets") \
    RECORD(FRAME_SET, frame_set, "frame set") \
    RECORD(FRAME, frame, "frame") \
    RECORD(SECTION_LISTS, count, "section lists") \
    RECORD(SECTION_LIST, section_list, "section list") \
    RECORD(SECTION, section, "section") \
    RECORD(SECTION_CATEGORIES, count, "section categories") \
    RECORD(SECTION_CATEGORY, section_category, "section category") \
    RECORD(STRINGS, count, "strings") \
    RECORD(STRING, string, "string") \
    RECORD(STRING_POINTERS, count, "string pointers") \
    RECORD(STRING_POINTER, pair, "string pointer") \
    RECORD(THREAD_NAMES, count, "thread names") \
    RECORD(THREAD_NAME, pair, "thread name") \
    RECORD(EXTERNAL_NAMES, count, "external names") \
    RECORD(EXTERNAL_NAME, external_name, "external name") \
    RECORD(LOCAL_THREADS, count, "local threads") \
    RECORD(LOCAL_THREAD, id, "local thread") \
    RECORD(EXTERNAL_THREADS, count, "external threads") \
    RECORD(EXTERNAL_THREAD, id, "external thread") \
    RECORD(SOURCE_LOCATIONS, count, "source locations") \
    RECORD(SOURCE_LOCATION, source_location, "source location") \
    RECORD(SOURCE_LOCATION_EXPANDS, count, "source location expands") \
    RECORD(SOURCE_LOCATION_EXPAND, id, "source location expand") \
    RECORD(SOURCE_LOCATION_PAYLOADS, count, "source location payloads") \
    RECORD(SOURCE_LOCATION_PAYLOAD, source_location, "source location payload") \
    RECORD(ZONE_STATS, count, "zone stats") \
    RECORD(ZONE_STAT, zone_stat, "zone stat") \
    RECORD(GPU_ZONE_STATS, count, "GPU zone stats") \
    RECORD(GPU_ZONE_STAT, zone_stat, "GPU zone stat") \
    RECORD(LOCKS, count, "locks") \
    RECORD(LOCK, lock, "lock") \
    RECORD(LOCK_THREAD, id, "lock thread") \
    RECORD(LOCK_EVENTS, count, "lock events") \
    RECORD(LOCK_EVENT, lock_event, "lock event") \
    RECORD(MESSAGES, count, "messages") \
    RECORD(MESSAGE, message, "message") \
    RECORD(ZONE_EXTRAS, count, "zone extras") \
    RECORD(ZONE_EXTRA, zone_extra, "zone extra") \
    RECORD(THREADS, threads, "threads") \
    RECORD(THREAD, thread, "thread") \
    RECORD(ZONE_BEGIN, zone_begin, "zone begin") \
    RECORD(ZONE_END, zone_end, "zone end") \
    RECORD(THREAD_MESSAGES, count, "thread messages") \
    RECORD(THREAD_MESSAGE, id, "thread message") \
    RECORD(SWITCH_SAMPLES, count, "switch samples") \
    RECORD(SWITCH_SAMPLE, sample, "switch sample") \
    RECORD(SAMPLES, count, "samples") \
    RECORD(SAMPLE, sample, "sample") \
    RECORD(GPU_CONTEXTS, threads, "GPU contexts") \
    RECORD(GPU_CONTEXT, gpu_context, "GPU context") \
    RECORD(GPU_NOTE_NAMES, count, "GPU note names") \
    RECORD(GPU_NOTE_NAME, gpu_note_name, "GPU note name") \
    RECORD(GPU_THREADS, count, "GPU threads") \
    RECORD(GPU_THREAD, gpu_thread, "GPU thread") \
    RECORD(GPU_ZONE_BEGIN, gpu_zone_begin, "GPU zone begin") \
    RECORD(GPU_ZONE_END, gpu_zone_end, "GPU zone end") \
    RECORD(GPU_NOTE_QUERIES, count, "GPU note queries") \
    RECORD(GPU_NOTE_QUERY, gpu_note_query, "GPU note query") \
    RECORD(GPU_NOTE, gpu_note, "GPU note") \
    RECORD(PLOTS, count, "plots") \
    RECORD(PLOT, plot, "plot") \
    RECORD(PLOT_POINT, plot_point, "plot point") \
    RECORD(POOLS, pools, "pools") \
    RECORD(POOL, pool, "pool") \
    RECORD(MEMORY_EVENT, memory_event, "memory event") \
    RECORD(POOL_END, pool_end, "pool end") \
    RECORD(CALLSTACKS, count, "callstacks") \
    RECORD(CALLSTACK, callstack, "callstack") \
    RECORD(CALLSTACK_FRAMES, count, "callstack frames") \
    RECORD(CALLSTACK_FRAME, callstack_frame, "callstack frame") \
    RECORD(APP_INFOS, count, "application info lines") \
    RECORD(APP_INFO, string_ref, "application info line") \
    RECORD(FRAME_IMAGE_DICT, blob, "frame image dict") \
    RECORD(FRAME_IMAGES, count, "frame images") \
    RECORD(FRAME_IMAGE, frame_image, "frame image") \
    RECORD(CONTEXT_SWITCH_THREADS, count, "context switch threads") \
    RECORD(CONTEXT_SWITCH_THREAD, id_count, "context switch thread") \
    RECORD(CONTEXT_SWITCH, context_switch, "context switch") \
    RECORD(CPU_SWITCH_LISTS, count, "processor switch lists") \
    RECORD(CPU_SWITCH_LIST, count, "processor switch list") \
    RECORD(CPU_SWITCH, cpu_switch, "processor switch") \
    RECORD(TID_TO_PIDS, count, "thread-to-process pairs") \
    RECORD(TID_TO_PID, pair, "thread-to-process pair") \
    RECORD(CPU_THREADS, count, "threads by processor time") \
    RECORD(CPU_THREAD, cpu_thread, "thread by processor time") \
    RECORD(SYMBOLS, symbols, "symbols") \
    RECORD(SYMBOL, symbol, "symbol") \
    RECORD(SYMBOL_CODES, count, "symbol codes") \
    RECORD(SYMBOL_CODE, symbol_code, "symbol code") \
    RECORD(CODE_SYMBOLS, count, "code symbols") \
    RECORD(CODE_SYMBOL, pair, "code symbol") \
    RECORD(HW_SAMPLES, count, "hardware sample addresses") \
    RECORD(HW_SAMPLE, id, "hardware sample address") \
    RECORD(HW_SAMPLE_LIST, count, "hardware sample list") \
    RECORD(HW_SAMPLE_TIME, time, "hardware sample") \
    RECORD(SOURCE_FILES, count, "source files") \
    RECORD(SOURCE_FILE, source_file, "source file")
/* clang-format on */

enum record_type {
#define RECORD(NAME, STRUCT, TEXT) REC_##NAME,
    RECORD_TYPES(RECORD)
#undef RECORD
        REC_TYPE_COUNT
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

/*
 * Records whose fields are plain, in file order. The kind of a field says how the file has it
 * (codec_field.h): `delta` and `gpu` are times, in the file the difference from the one before.
 * R also says what the field means in other records, which check.c holds and a merge renumbers:
 *
 *     string, stack, text      sidx, call stack, struct rec_string_ref
 *     late_string              sidx of a string that comes later in the file
 *     srcloc, extra            source location, zone extra
 *     thread                   id; local_, external_ and lock_thread: index in such a list
 *     address                  of code
 *     time, end                ns; an end is -1 if there is none
 *     message                  key of a message
 *
 * S is a field that only some layouts (`l`) have, and its value where they lack it.
 */
/* clang-format off */
#define FIXED_RECORDS(RECORD, F, R, S) \
    RECORD(count, F(u64, n)) \
    RECORD(id, F(u64, id)) \
    RECORD(id_count, R(u64, thread, id) F(u64, n)) \
    RECORD(pair, F(u64, key) F(u64, value)) \
    RECORD(time, R(delta, time, time)) \
    /* A package, die, core or cpu with the number of nodes below it (0 for a cpu). */ \
    RECORD(topology_node, F(u32, id) F(u64, n)) \
    RECORD(crash, F(u64, thread) F(i64, time) F(u64, message) /* client pointer */ \
           R(u32, stack, callstack)) \
    RECORD(frame_set, F(u64, name) /* client pointer; 0: the base set */ F(u8, continuous) \
           F(u64, n)) \
    RECORD(section_list, S(l->sections == SECTIONS_BY_CATEGORY, u16, category, 0) F(u64, n)) \
    RECORD(section, F(time48, start) F(time48, end) R(sidx, late_string, text)) \
    RECORD(section_category, F(u16, category) R(sidx, late_string, description)) \
    RECORD(external_name, F(u64, id) F(u64, program_key) F(u64, thread_key)) \
    RECORD(zone_stat, R(i16, srcloc, srcloc) F(u64, n)) \
    RECORD(lock, F(u32, id) R(sidx, string, custom_name) R(i16, srcloc, srcloc) F(u8, type) \
           F(u8, valid) F(time, time_announce) F(i64, time_terminate) F(u64, n) /* threads */) \
    RECORD(lock_event, R(delta, time, time) R(i16, srcloc, srcloc) R(u8, lock_thread, thread) \
           F(u8, event)) \
    /* From 0.13.2 on with source (default: the program) and severity (default: info). */ \
    RECORD(message, R(u64, message, key) R(delta, time, time) R(string_ref, text, text) \
           F(u32, color) R(u24, stack, callstack) \
           S(l->message_meta, u8, source, 0) S(l->message_meta, u8, severity, 2)) \
    RECORD(zone_extra, R(u24, stack, callstack) R(sidx, string, text) R(sidx, string, name) \
           F(u24, color)) \
    /* THREADS and GPU_CONTEXTS: the totals that precede them. */ \
    RECORD(threads, F(u64, zones) F(u64, child_lists) F(u64, n)) \
    RECORD(thread, F(u64, id) F(u64, zones) F(u64, kernel_samples) F(u8, is_fiber) \
           S(l->group_hint, i32, group_hint, 0) F(u32, n) /* root zones */) \
    RECORD(zone_begin, R(i16, srcloc, srcloc) R(delta, time, start) R(u32, extra, extra) \
           F(u32, n) /* children */) \
    RECORD(zone_end, R(delta, end, end)) \
    RECORD(sample, R(delta, time, time) R(u24, stack, callstack)) \
    RECORD(gpu_context, F(u64, thread) F(u8, calibration) F(u64, zones) F(f32, period) \
           F(u8, type) R(sidx, string, name) F(u64, overflow)) \
    RECORD(gpu_note_name, F(i64, id) R(sidx, string, name)) \
    RECORD(gpu_thread, R(u64, thread, id) F(u64, n) /* root zones */) \
    /* GPU times that were never received are -1 at both ends. */ \
    RECORD(gpu_zone_begin, R(delta, time, cpu_start) R(gpu, end, gpu_start) R(i16, srcloc, srcloc) \
           R(u24, stack, callstack) R(u16, local_thread, thread) F(u64, n) /* children */) \
    RECORD(gpu_zone_end, R(delta, end, cpu_end) R(gpu, end, gpu_end) \
           S(l->gpu_notes, u16, query_id, 0)) \
    RECORD(gpu_note_query, F(u16, query_id) F(u64, n)) \
    RECORD(gpu_note, F(i64, id) F(f64, value)) \
    RECORD(plot, F(u8, type) F(u8, format) F(u8, show_steps) F(u8, fill) F(u32, color) \
           F(u64, name) /* client pointer */ F(f64, min) F(f64, max) F(f64, sum) F(u64, n)) \
    RECORD(plot_point, R(delta, time, time) F(f64, value)) \
    RECORD(pools, F(u64, n) F(u64, events) /* of all pools */) \
    RECORD(pool, F(u64, key) /* 0: default pool, else client pointer of its name */ \
           F(u64, events) F(u64, active) F(u64, frees)) \
    RECORD(pool_end, F(u64, high) F(u64, low) F(u64, usage) \
           F(u64, name) /* equals the pool's key */) \
    RECORD(context_switch, R(delta, time, wakeup) R(delta, time, start) R(delta, end, end) \
           F(u8, cpu) F(i8, reason) F(i8, state) R(u64, thread, thread) \
           S(l->wakeup_cpu, u8, wakeup_cpu, r->cpu)) \
    RECORD(cpu_switch, R(delta, time, start) R(delta, end, end) R(u16, external_thread, thread)) \
    RECORD(cpu_thread, R(u64, thread, tid) F(i64, running_time) F(u32, running_regions) \
           F(u32, migrations)) \
    RECORD(symbols, F(u64, regular) F(u64, inlined) F(u64, n)) \
    RECORD(symbol, R(u64, address, address) R(sidx, string, name) R(sidx, string, file) \
           F(u32, line) R(sidx, string, image) R(sidx, string, call_file) F(u32, call_line) \
           F(u8, is_inline) F(u24, size))

/* Their texts have any size. */
#define VARYING_RECORDS(RECORD, F, R) \
    RECORD(blob, F(text32, bytes)) \
    RECORD(string, F(u64, key) F(text64, text)) \
    RECORD(symbol_code, R(u64, address, address) F(text32, bytes)) \
    RECORD(source_file, F(text32, path) F(text32, bytes))
/* clang-format on */

#define TYPE_OF_u8 uint8_t
#define TYPE_OF_i8 int8_t
#define TYPE_OF_u16 uint16_t
#define TYPE_OF_i16 int16_t
#define TYPE_OF_u24 uint32_t
#define TYPE_OF_u32 uint32_t
#define TYPE_OF_i32 int32_t
#define TYPE_OF_u64 uint64_t
#define TYPE_OF_i64 int64_t
#define TYPE_OF_f32 float
#define TYPE_OF_f64 double
#define TYPE_OF_sidx uint32_t
#define TYPE_OF_time int64_t
#define TYPE_OF_time48 int64_t
#define TYPE_OF_delta int64_t
#define TYPE_OF_gpu int64_t
#define TYPE_OF_string_ref struct rec_string_ref
#define TYPE_OF_text32 struct view
#define TYPE_OF_text64 struct view
#define RECORD_MEMBER(KIND, NAME) TYPE_OF_##KIND NAME;
#define RECORD_REFERENCE(KIND, MEANING, NAME) TYPE_OF_##KIND NAME;
#define RECORD_MEMBER_SINCE(HAS, KIND, NAME, OTHERWISE) TYPE_OF_##KIND NAME;
#define RECORD_STRUCT(NAME, FIELDS)                                                                \
    struct rec_##NAME {                                                                            \
        FIELDS                                                                                     \
    };
FIXED_RECORDS(RECORD_STRUCT, RECORD_MEMBER, RECORD_REFERENCE, RECORD_MEMBER_SINCE)
VARYING_RECORDS(RECORD_STRUCT, RECORD_MEMBER, RECORD_REFERENCE)
#undef RECORD_STRUCT
#undef RECORD_MEMBER
#undef RECORD_REFERENCE
#undef RECORD_MEMBER_SINCE

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

struct rec_frame {
    int64_t start;
    int64_t end;   /* -1 in continuous sets, where a frame ends at the start of the next */
    int32_t image; /* index of a frame image or -1 */
};

struct rec_source_location {
    uint64_t pointer; /* SOURCE_LOCATION only */
    struct rec_string_ref name;
    struct rec_string_ref function;
    struct rec_string_ref file;
    uint32_t line;
    uint32_t color;
};

/* Frames are frame ids as in the file, innermost first. */
struct rec_callstack {
    const uint64_t *frames;
    uint16_t len;
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

/* sizeof of a record type's struct; the type's name, for messages: "<name> 12 of 40". */
size_t record_size(enum record_type type);
const char *record_name(enum record_type type);
