#pragma once

/*
 * The internals of struct decoder, shared only by decoder.c and its decoder_*.c parts. A handler
 * decodes one item whose fixed part and tail lie within the frame: `p` is its id byte, `it` its
 * row, `tail` the bytes after its length prefix.
 */

#include "base/buf.h"
#include "base/bytes.h"
#include "base/map.h"
#include "base/vec.h"
#include "protocol/decoder.h"
#include "protocol/wire_clock.h"

/*
 * Bytes from one item for a later one. They stay in their frame and are copied only if the frame
 * ends first.
 */
struct slot {
    bool full;
    struct view bytes;
    struct buf kept;
};

/* A thread or a fiber. */
struct thread_state {
    uint64_t id;
    uint64_t zones;     /* open zones */
    uint64_t fiber_key; /* of a fiber: client pointer of its name */
    size_t fiber;       /* of a thread: index + 1 of the fiber that runs on it; 0: none */
    uint32_t callstack; /* for its next zone or message; 0: none */
};

/* The answer for a call-stack frame: CallstackFrameSize, then that many CallstackFrames. */
struct frame_reply {
    uint64_t address;
    unsigned count; /* announced frames */
    unsigned have;
    bool deliver; /* this is the first answer for the address */
    bool open;    /* count > have */
    size_t image_len;
    struct buf text; /* image, then function and file of each frame */
    struct {
        size_t function_len, file_len;
        uint64_t symbol;
        uint32_t line, symbol_len;
    } frames[UINT8_MAX];
};

/* Limits on file names that get a number, and on instructions whose lines are queried. */
#define SOURCES_MAX 65536u
#define CODE_LINES_MAX ((uint64_t)1 << 20)

struct decoder_sources {
    bool wanted;          /* the client has sent the mtime of its executable */
    struct map texts;     /* hash of a name → its state */
    struct map pointers;  /* client pointer of a name → its state */
    VEC(uint64_t) hashes; /* of the name with that number */
};

#define RECENT 256 /* must be a power of two */
#define MEMORY_BATCH 64u

/* The role of an item in a run of memory events. */
enum run_item {
    RUN_NONE = 0, /* not part of a run */
    RUN_EVENT = 1,
    RUN_ALLOC = 2, /* else a free */
    RUN_NAMED = 4,
    RUN_STACK = 8, /* uses the serial call stack */
    RUN_PAYLOAD = 16,
    RUN_SERIAL = 32,
    RUN_POOL = 64,
};

#define CUSTOM_FRAMES_MAX 64
#define NATIVE_FRAMES_MAX (UINT16_MAX / 8)

struct decoder {
    const struct wire_version *version;
    const struct wire_item *items;
    unsigned item_count;
    uint8_t run_items[UINT8_MAX + 1]; /* enum run_item by item id */
    struct wire_clock clock;
    struct event_sink sink;
    struct query *query;
    uint64_t size_mask; /* for allocation sizes: 32-bit clients leave garbage in the upper bits */
    enum literal_tag literal_tag;
    bool fiber_memory, plot_color_rgb; /* as in struct wire_facts */

    /* the current frame */
    const uint8_t *frame;
    const uint8_t *item; /* the item being decoded */
    struct err *err;
    bool broken;

    /* time references, in ticks; they wrap */
    uint64_t ref_thread, ref_serial, ref_ctx, ref_gpu;

    /* for a later item */
    struct slot single, second, location, stack, image;
    bool has_pool, has_custom;
    uint64_t pool;
    unsigned custom_count;
    uint64_t custom[CUSTOM_FRAMES_MAX];
    uint32_t serial_stack;
    /*
     * Serial call stacks, looked up together with the last of their events or when an id is needed.
     * `takers` says where each id goes: to the event that took the stack, or, if NULL, to
     * serial_stack. Only the last stack may have no taker.
     */
    unsigned stack_count;
    struct sent_callstack stacks[MEMORY_BATCH]; /* in the current frame */
    uint32_t *takers[MEMORY_BATCH];
    struct frame_reply reply;

    /* threads */
    uint64_t context;  /* thread id of the last ThreadContext */
    size_t context_at; /* its index + 1, or 0 when not looked up yet */
    struct pageable *pageable;
    struct map threads; /* id → index + 1 */
    struct map fibers;  /* client pointer → index + 1 */
    size_t fiber_count;
    VEC(struct thread_state) states;
    uint64_t open_zones;
    uint64_t recent_threads[RECENT]; /* threads known to be queried: id + 1 */
    uint64_t recent_pools[RECENT];   /* the pool pointer itself */

    /* code and source texts */
    struct decoder_sources sources;
    struct map code_sizes; /* symbol → bytes, for symbols whose code may be queried */
    struct code_reader read_code;
    uint64_t code_lines;

    bool terminated, crashed;
    struct decoder_stats stats;
    /* Memory events not delivered yet. */
    unsigned memory_count;
    struct memory_event memory[MEMORY_BATCH];
    uint64_t frames[CUSTOM_FRAMES_MAX + NATIVE_FRAMES_MAX];
};

typedef int decoder_handler(struct decoder *d, const struct wire_item *it, const uint8_t *p,
                            struct view tail);

/* The head of a handler's definition. Few handlers use all four parameters. */
#define HANDLER(NAME)                                                                              \
    int NAME(struct decoder *d, const struct wire_item *it __attribute__((unused)),                \
             const uint8_t *p __attribute__((unused)), struct view tail __attribute__((unused)))

/* ---- errors */

/* Sets the error of the current item: its location and name, then the cause. Returns -1. */
int decoder_fail(struct decoder *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- fields; every protocol that has the item must have `slot` */

static inline uint8_t field_u8(const struct wire_item *it, const uint8_t *p, enum wire_slot slot)
{
    return p[it->at[slot]];
}

static inline uint16_t field_u16(const struct wire_item *it, const uint8_t *p, enum wire_slot slot)
{
    return load_u16(p + it->at[slot]);
}

static inline uint32_t field_u32(const struct wire_item *it, const uint8_t *p, enum wire_slot slot)
{
    return load_u32(p + it->at[slot]);
}

static inline uint64_t field_u64(const struct wire_item *it, const uint8_t *p, enum wire_slot slot)
{
    return load_u64(p + it->at[slot]);
}

static inline bool field_absent(const struct wire_item *it, enum wire_slot slot)
{
    return it->at[slot] == 0;
}

/* Advances a reference by the item's time field in any of its forms; returns the new ticks. */
static inline int64_t decoder_advance(const struct wire_item *it, const uint8_t *p, uint64_t *ref)
{
    p += it->at[AT_TIME];
    switch (it->time) {
    case WIRE_TIME_16:
        *ref += load_u16(p);
        break;
    case WIRE_TIME_32:
        *ref += load_u32(p) + 0x10000ull;
        break;
    case WIRE_TIME_BIASED:
        *ref += load_u64(p) + (load_i64(p) < 0 ? 0 : 0x100010000ull);
        break;
    default:
        *ref += load_u64(p);
    }
    return (int64_t)*ref;
}

/* An absolute time field. */
static inline int64_t decoder_time(const struct decoder *d, const struct wire_item *it,
                                   const uint8_t *p)
{
    return clock_ns(&d->clock, (int64_t)field_u64(it, p, AT_TIME));
}

/* Delivers the buffered memory events. */
int decoder_emit_memory(struct decoder *d);

static inline int decoder_emit(struct decoder *d, const struct event *ev)
{
    if (d->memory_count && decoder_emit_memory(d) < 0)
        return -1;
    return d->sink.event(d->sink.ctx, ev, d->err);
}

/* ---- slots */

/* Fills a slot with an item's tail; -1 when the slot is already full. */
int slot_fill(struct decoder *d, struct slot *slot, const char *what, struct view tail);

/* Empties a slot; -1 when it is empty. The view is valid until the slot is filled again. */
int slot_take(struct decoder *d, struct slot *slot, const char *what, struct view *bytes);

/* ---- threads */

/* The owner of the memory of a thread's events: the fiber that runs on it, or the thread. */
uint64_t decoder_memory_owner(struct decoder *d, uint32_t thread);

/* Queries the thread's name once. */
static inline int decoder_note_thread(struct decoder *d, uint32_t id)
{
    uint64_t *recent = &d->recent_threads[id % RECENT];
    if (*recent == (uint64_t)id + 1)
        return 0;
    *recent = (uint64_t)id + 1;
    return query_ask(d->query, QUERY_THREAD, id, d->err);
}

/* The state of the thread or fiber that `map` has under `key`, or a new one. NULL after an error.
 */
struct thread_state *decoder_thread_state(struct decoder *d, struct map *map, uint64_t key,
                                          uint64_t id, uint64_t fiber_key);
struct thread_state *decoder_os_thread(struct decoder *d, uint32_t id);

/* The thread or fiber of items that carry no thread. NULL after an error. */
struct thread_state *decoder_current(struct decoder *d);

/* Takes the pending serial call stack; 0 when there is none. */
int decoder_take_serial_stack(struct decoder *d, uint32_t *id);

/* Looks up all pending stacks. Call it before another one is interned and at the end of a frame. */
int decoder_settle_stacks(struct decoder *d);

/* ---- code and source texts */

void sources_release(struct decoder_sources *s);

/* Report a file name that arrived as text, a pointer to one, or the answer to such a pointer. */
int sources_text(struct decoder *d, struct view file, struct view image);
int sources_pointer(struct decoder *d, uint64_t file);
int sources_string(struct decoder *d, uint64_t pointer, struct view text);

/* The text of a source file has arrived. */
int sources_received(struct decoder *d, uint64_t id);

/*
 * The functions report that a symbol arrived with its size, that the client referred to a symbol,
 * and that its code arrived. The first size counts, as in the official server; inlined functions
 * have none.
 */
int code_note_size(struct decoder *d, uint64_t symbol, uint32_t size);
int code_ask(struct decoder *d, uint64_t symbol);
int code_received(struct decoder *d, uint64_t symbol, struct view code);

/* ---- memory events */

/*
 * Offsets of fields from the id byte in the items of a run. They are the same in all protocols (a
 * test checks this), so the hot path uses constants.
 */
enum {
    EVENT_TIME_AT = 1,
    EVENT_THREAD_AT = 9,
    EVENT_PTR_AT = 13,
    EVENT_SIZE_AT = 21, /* of an allocation, 48 bits */
    FREE_BYTES = 21,
    ALLOC_BYTES = 27,
    POOL_AT = 1,
    POOL_BYTES = 9,
    PAYLOAD_LEN_AT = 9, /* 16 bits */
    PAYLOAD_HEAD = 11,
};

/* Determines which items form runs; needs `items`. */
void decoder_know_runs(struct decoder *d);

/*
 * Decodes consecutive allocations and frees, with the serial call stacks and pool names between
 * them. Returns the position of the first other or malformed item, which may be `p`; NULL after an
 * error.
 */
const uint8_t *decoder_memory_run(struct decoder *d, const uint8_t *p, const uint8_t *end);

/* ---- handlers, by file */

decoder_handler on_memory_event, on_mem_discard, on_mem_name;
decoder_handler on_callstack_payload, on_callstack_alloc_payload, on_callstack_serial, on_callstack;
decoder_handler on_sample;

decoder_handler on_zone_begin, on_zone_end, on_zone_text, on_zone_color, on_zone_number;
decoder_handler on_srcloc_payload;
decoder_handler on_message, on_message_literal, on_app_info;
decoder_handler on_lock_announce, on_lock_terminate, on_lock_event, on_lock_mark, on_lock_name;
decoder_handler on_frame_mark, on_frame_image, on_plot, on_plot_config, on_section;

decoder_handler on_gpu_context, on_gpu_text, on_gpu_zone_begin, on_gpu_zone_end, on_gpu_time;
decoder_handler on_gpu_sync, on_gpu_note;

decoder_handler on_thread_context, on_thread_hint, on_fiber_enter, on_fiber_leave;
decoder_handler on_context_switch, on_thread_wakeup, on_tid_to_pid, on_hw_sample;
decoder_handler on_sys_time, on_sys_power, on_cpu_topology, on_param;
decoder_handler on_crash_report, on_session;

decoder_handler on_string, on_image_data, on_name, on_external_thread_name, on_source_location;
decoder_handler on_frame_size, on_frame, on_symbol, on_ack;

/*
 * Whether the official server drops a function of this file when it was inlined with others at the
 * same address: compiler intrinsics and atomics.
 */
bool skip_file(struct view file);

/*
 * The location of a CPU or GPU zone: a key to query in *srcloc, or the location that preceded the
 * item in *payload.
 */
int decoder_take_location(struct decoder *d, const struct wire_item *it, const uint8_t *p,
                          enum wire_slot slot, uint64_t *srcloc, struct event_location *payload);
