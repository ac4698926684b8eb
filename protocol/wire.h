#pragma once

/*
 * The items of the wire as data. One row per item id describes its meaning (its canonical kind and
 * flags), its length, and the offsets of its fields; the decoding is the same for every protocol
 * number. gen-wire-table.awk generates the rows from queue-items.tsv. Source:
 * public/common/TracyQueue.hpp of each number's tree.
 */

#include <stdint.h>

/*
 * Canonical kinds, one for all variants of an item: MemAllocCallstackNamed is WIRE_MEM_ALLOC with
 * two flags, ZoneEnd16 is WIRE_ZONE_END with another time encoding. WIRE_NONE is an id that clients
 * use internally and never send. After each kind: the function of the decoder that handles it.
 */
#define WIRE_KINDS(X)                                                                              \
    X(NONE, on_none)                                                                               \
    X(ZONE_BEGIN, on_zone_begin)                                                                   \
    X(ZONE_END, on_zone_end)                                                                       \
    X(ZONE_TEXT, on_zone_text)                                                                     \
    X(ZONE_NAME, on_zone_text)                                                                     \
    X(ZONE_COLOR, on_zone_color)                                                                   \
    X(ZONE_VALUE, on_zone_number)                                                                  \
    X(ZONE_VALIDATION, on_zone_number)                                                             \
    X(MESSAGE, on_message)                                                                         \
    X(MESSAGE_LITERAL, on_message_literal)                                                         \
    X(APP_INFO, on_app_info)                                                                       \
    X(CALLSTACK_SERIAL, on_callstack_serial)                                                       \
    X(CALLSTACK, on_callstack)                                                                     \
    X(CALLSTACK_ALLOC, on_callstack)                                                               \
    X(SAMPLE, on_sample)                                                                           \
    X(SWITCH_SAMPLE, on_sample)                                                                    \
    X(HW_SAMPLE, on_hw_sample)                                                                     \
    X(FRAME_MARK, on_frame_mark)                                                                   \
    X(FRAME_START, on_frame_mark)                                                                  \
    X(FRAME_END, on_frame_mark)                                                                    \
    X(FRAME_VSYNC, on_frame_mark)                                                                  \
    X(FRAME_IMAGE, on_frame_image)                                                                 \
    X(LOCK_ANNOUNCE, on_lock_announce)                                                             \
    X(LOCK_TERMINATE, on_lock_terminate)                                                           \
    X(LOCK_WAIT, on_lock_event)                                                                    \
    X(LOCK_OBTAIN, on_lock_event)                                                                  \
    X(LOCK_RELEASE, on_lock_event)                                                                 \
    X(LOCK_MARK, on_lock_mark)                                                                     \
    X(LOCK_NAME, on_lock_name)                                                                     \
    X(MEM_ALLOC, on_memory_event)                                                                  \
    X(MEM_FREE, on_memory_event)                                                                   \
    X(MEM_DISCARD, on_mem_discard)                                                                 \
    X(MEM_NAME, on_mem_name)                                                                       \
    X(GPU_CONTEXT, on_gpu_context)                                                                 \
    X(GPU_CONTEXT_NAME, on_gpu_text)                                                               \
    X(GPU_ZONE_BEGIN, on_gpu_zone_begin)                                                           \
    X(GPU_ZONE_END, on_gpu_zone_end)                                                               \
    X(GPU_TIME, on_gpu_time)                                                                       \
    X(GPU_CALIBRATION, on_gpu_sync)                                                                \
    X(GPU_TIME_SYNC, on_gpu_sync)                                                                  \
    X(GPU_NOTE_NAME, on_gpu_text)                                                                  \
    X(GPU_NOTE, on_gpu_note)                                                                       \
    X(PLOT, on_plot)                                                                               \
    X(PLOT_CONFIG, on_plot_config)                                                                 \
    X(CONTEXT_SWITCH, on_context_switch)                                                           \
    X(THREAD_WAKEUP, on_thread_wakeup)                                                             \
    X(TID_TO_PID, on_tid_to_pid)                                                                   \
    X(THREAD_CONTEXT, on_thread_context)                                                           \
    X(THREAD_GROUP_HINT, on_thread_hint)                                                           \
    X(FIBER_ENTER, on_fiber_enter)                                                                 \
    X(FIBER_LEAVE, on_fiber_leave)                                                                 \
    X(SECTION_SETUP, on_section)                                                                   \
    X(SECTION_ENTER, on_section)                                                                   \
    X(SECTION_LEAVE, on_section)                                                                   \
    X(SYS_TIME, on_sys_time)                                                                       \
    X(SYS_POWER, on_sys_power)                                                                     \
    X(CPU_TOPOLOGY, on_cpu_topology)                                                               \
    X(PARAM, on_param)                                                                             \
    X(CRASH_REPORT, on_crash_report)                                                               \
    X(CRASH, on_session)                                                                           \
    X(TERMINATE, on_session)                                                                       \
    X(KEEP_ALIVE, on_session)                                                                      \
    X(SINGLE_STRING, on_string)                                                                    \
    X(SECOND_STRING, on_string)                                                                    \
    X(SRCLOC_PAYLOAD, on_srcloc_payload)                                                           \
    X(CALLSTACK_PAYLOAD, on_callstack_payload)                                                     \
    X(CALLSTACK_ALLOC_PAYLOAD, on_callstack_alloc_payload)                                         \
    X(FRAME_IMAGE_DATA, on_image_data)                                                             \
    X(SOURCE_LOCATION, on_source_location)                                                         \
    X(CALLSTACK_FRAME_SIZE, on_frame_size)                                                         \
    X(CALLSTACK_FRAME, on_frame)                                                                   \
    X(SYMBOL, on_symbol)                                                                           \
    X(ACK_NOOP, on_ack)                                                                            \
    X(ACK_NO_SOURCE, on_ack)                                                                       \
    X(ACK_NO_SYMBOL_CODE, on_ack)                                                                  \
    X(STRING_DATA, on_name)                                                                        \
    X(THREAD_NAME, on_name)                                                                        \
    X(PLOT_NAME, on_name)                                                                          \
    X(FRAME_NAME, on_name)                                                                         \
    X(FIBER_NAME, on_name)                                                                         \
    X(EXTERNAL_NAME, on_name)                                                                      \
    X(EXTERNAL_THREAD_NAME, on_external_thread_name)                                               \
    X(SYMBOL_CODE, on_name)                                                                        \
    X(SOURCE_CODE, on_name)

enum wire_kind {
#define X(NAME, HANDLER) WIRE_##NAME,
    WIRE_KINDS(X)
#undef X
        WIRE_KIND_COUNT
};

enum wire_flags {
    WIRE_F_CALLSTACK = 1, /* takes the pending call stack (thread's or serial) */
    WIRE_F_NAMED = 2,     /* memory: takes the pending pool name */
    WIRE_F_PAYLOAD = 4,   /* zones: takes the pending source location */
    WIRE_F_SERIAL = 8,    /* GPU zones: time and call stack of the serial queue */
    WIRE_F_SHARED = 16,   /* locks: shared variant */
};

/* Encodings of an item's time. */
enum wire_time {
    WIRE_TIME_PLAIN,  /* i64 */
    WIRE_TIME_BIASED, /* i64; plus 65536 + 2^32 if not negative */
    WIRE_TIME_32,     /* u32 + 65536 */
    WIRE_TIME_16,     /* u16 */
};

/* The length prefix that follows the fixed part. */
enum wire_tail {
    WIRE_TAIL_NONE,
    WIRE_TAIL_8,
    WIRE_TAIL_16,
    WIRE_TAIL_16_PLUS_256, /* real length = u16 + 256 */
    WIRE_TAIL_32,
};

/* Value type of WIRE_PLOT (wire_item.arg). */
enum wire_plot_value { WIRE_PLOT_INT, WIRE_PLOT_FLOAT, WIRE_PLOT_DOUBLE };

/*
 * Slots of wire_item.at: the offset of a field from the id byte; 0 if the item lacks the field in
 * this protocol. Time and thread have the same slot in every kind; other slots are numbered per
 * kind. Three colour bytes b, g, r are one field.
 */
enum wire_slot {
    AT_TIME = 0, /* also cpuTime */
    AT_THREAD = 1,

    AT_KEY = 2, /* replies: ptr, symAddr, id; TID_TO_PID: tid; names: name */

    AT_ZONE_SRCLOC = 2,
    AT_ZONE_COLOR = 2,
    AT_ZONE_NUMBER = 2, /* value or validation id */

    AT_MESSAGE_COLOR = 2,
    AT_MESSAGE_TEXT = 3,
    AT_MESSAGE_METADATA = 4,

    AT_MEM_PTR = 2,
    AT_MEM_SIZE = 3,
    AT_MEM_POOL = 4, /* discard: the item names the pool */

    AT_LOCK_ID = 2,
    AT_LOCK_SRCLOC = 3,
    AT_LOCK_TYPE = 4,

    AT_GPU_QUERY = 2,
    AT_GPU_CONTEXT = 3,
    AT_GPU_SRCLOC = 4,
    AT_GPU_TIME = 4,
    AT_GPU_DELTA = 5,
    AT_GPU_PERIOD = 5,
    AT_GPU_FLAGS = 6,
    AT_GPU_TYPE = 7,
    AT_GPU_NOTE = 4,
    AT_GPU_VALUE = 5,

    AT_FRAME_NAME = 2, /* frame marks: name; vsync: id */
    AT_IMAGE_FRAME = 2,
    AT_IMAGE_W = 3,
    AT_IMAGE_H = 4,
    AT_IMAGE_FLIP = 5,

    AT_PLOT_NAME = 2,
    AT_PLOT_VALUE = 3,
    AT_PLOT_TYPE = 3,
    AT_PLOT_STEP = 4,
    AT_PLOT_FILL = 5,
    AT_PLOT_COLOR = 6,

    AT_SWITCH_NEW_THREAD = 2, /* AT_THREAD is the old thread */
    AT_SWITCH_CPU = 3,
    AT_SWITCH_REASON = 4,
    AT_SWITCH_STATE = 5,
    AT_SWITCH_CSTATE = 6,
    AT_SWITCH_NEW_PRIORITY = 7,
    AT_SWITCH_OLD_PRIORITY = 8,
    AT_WAKEUP_CPU = 3,
    AT_WAKEUP_REASON = 4,
    AT_WAKEUP_INCREMENT = 5,

    AT_PID = 3,
    AT_HINT = 3, /* fibers and thread group hints */
    AT_FIBER = 2,

    AT_SECTION_ID = 2,
    AT_SECTION_CATEGORY = 3,

    AT_SYS_VALUE = 2, /* percent, or microjoules */
    AT_SYS_NAME = 3,

    AT_CPU_PACKAGE = 2,
    AT_CPU_DIE = 3,
    AT_CPU_CORE = 4,
    AT_CPU_THREAD = 5,

    AT_PARAM_ID = 2,
    AT_PARAM_NAME = 3,
    AT_PARAM_TYPE = 4,
    AT_PARAM_VALUE = 5,

    AT_SRCLOC_NAME = 2,
    AT_SRCLOC_FUNCTION = 3,
    AT_SRCLOC_FILE = 4,
    AT_SRCLOC_LINE = 5,
    AT_SRCLOC_COLOR = 6,

    AT_FRAME_COUNT = 3, /* CallstackFrameSize.size */
    AT_FRAME_LINE = 3,  /* CallstackFrame and SymbolInformation; their symAddr is AT_KEY */
    AT_FRAME_LEN = 4,

    WIRE_SLOTS = 10
};

struct wire_item {
    uint8_t kind;  /* enum wire_kind */
    uint8_t size;  /* bytes of the fixed part, id included */
    uint8_t flags; /* enum wire_flags */
    uint8_t time;  /* enum wire_time */
    uint8_t tail;  /* enum wire_tail */
    uint8_t arg;   /* PLOT: enum wire_plot_value; HW_SAMPLE: counter */
    uint8_t at[WIRE_SLOTS];
};

/* Full descriptions of the items, for encoding by name, messages and tests. */

enum wire_type {
    WIRE_U8,
    WIRE_I8,
    WIRE_U16,
    WIRE_U32,
    WIRE_I32,
    WIRE_U48,
    WIRE_U64,
    WIRE_I64,
    WIRE_F32,
    WIRE_F64,
    WIRE_U64_TAG_LOW,  /* address << 8 | tag */
    WIRE_U64_TAG_HIGH, /* tag << 56 | address */
};

struct wire_field {
    const char *name; /* as in queue-items.tsv */
    uint8_t type;     /* enum wire_type */
    uint8_t at;       /* offset from the byte after the id */
};

struct wire_item_info {
    const char *name; /* Tracy's name of the item */
    const struct wire_field *fields;
    uint8_t field_count;
};

/* The size in bytes of a field of this type. */
unsigned wire_type_size(enum wire_type type);

/* The size in bytes of an item's length prefix. */
static inline unsigned wire_tail_size(enum wire_tail tail)
{
    return tail == WIRE_TAIL_NONE ? 0 : tail == WIRE_TAIL_8 ? 1 : tail == WIRE_TAIL_32 ? 4 : 2;
}
