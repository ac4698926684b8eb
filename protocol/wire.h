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
 * use internally and never send.
 */
#define WIRE_KINDS(X)                                                                              \
    X(NONE)                                                                                        \
    X(ZONE_BEGIN)                                                                                  \
    X(ZONE_END)                                                                                    \
    X(ZONE_TEXT)                                                                                   \
    X(ZONE_NAME)                                                                                   \
    X(ZONE_COLOR)                                                                                  \
    X(ZONE_VALUE)                                                                                  \
    X(ZONE_VALIDATION)                                                                             \
    X(MESSAGE)                                                                                     \
    X(MESSAGE_LITERAL)                                                                             \
    X(APP_INFO)                                                                                    \
    X(CALLSTACK_SERIAL)                                                                            \
    X(CALLSTACK)                                                                                   \
    X(CALLSTACK_ALLOC)                                                                             \
    X(SAMPLE)                                                                                      \
    X(SWITCH_SAMPLE)                                                                               \
    X(HW_SAMPLE)                                                                                   \
    X(FRAME_MARK)                                                                                  \
    X(FRAME_START)                                                                                 \
    X(FRAME_END)                                                                                   \
    X(FRAME_VSYNC)                                                                                 \
    X(FRAME_IMAGE)                                                                                 \
    X(LOCK_ANNOUNCE)                                                                               \
    X(LOCK_TERMINATE)                                                                              \
    X(LOCK_WAIT)                                                                                   \
    X(LOCK_OBTAIN)                                                                                 \
    X(LOCK_RELEASE)                                                                                \
    X(LOCK_MARK)                                                                                   \
    X(LOCK_NAME)                                                                                   \
    X(MEM_ALLOC)                                                                                   \
    X(MEM_FREE)                                                                                    \
    X(MEM_DISCARD)                                                                                 \
    X(MEM_NAME)                                                                                    \
    X(GPU_CONTEXT)                                                                                 \
    X(GPU_CONTEXT_NAME)                                                                            \
    X(GPU_ZONE_BEGIN)                                                                              \
    X(GPU_ZONE_END)                                                                                \
    X(GPU_TIME)                                                                                    \
    X(GPU_CALIBRATION)                                                                             \
    X(GPU_TIME_SYNC)                                                                               \
    X(GPU_NOTE_NAME)                                                                               \
    X(GPU_NOTE)                                                                                    \
    X(PLOT)                                                                                        \
    X(PLOT_CONFIG)                                                                                 \
    X(CONTEXT_SWITCH)                                                                              \
    X(THREAD_WAKEUP)                                                                               \
    X(TID_TO_PID)                                                                                  \
    X(THREAD_CONTEXT)                                                                              \
    X(THREAD_GROUP_HINT)                                                                           \
    X(FIBER_ENTER)                                                                                 \
    X(FIBER_LEAVE)                                                                                 \
    X(SECTION_SETUP)                                                                               \
    X(SECTION_ENTER)                                                                               \
    X(SECTION_LEAVE)                                                                               \
    X(SYS_TIME)                                                                                    \
    X(SYS_POWER)                                                                                   \
    X(CPU_TOPOLOGY)                                                                                \
    X(PARAM)                                                                                       \
    X(CRASH_REPORT)                                                                                \
    X(CRASH)                                                                                       \
    X(TERMINATE)                                                                                   \
    X(KEEP_ALIVE)                                                                                  \
    X(SINGLE_STRING)                                                                               \
    X(SECOND_STRING)                                                                               \
    X(SRCLOC_PAYLOAD)                                                                              \
    X(CALLSTACK_PAYLOAD)                                                                           \
    X(CALLSTACK_ALLOC_PAYLOAD)                                                                     \
    X(FRAME_IMAGE_DATA)                                                                            \
    X(SOURCE_LOCATION)                                                                             \
    X(CALLSTACK_FRAME_SIZE)                                                                        \
    X(CALLSTACK_FRAME)                                                                             \
    X(SYMBOL)                                                                                      \
    X(ACK_NOOP)                                                                                    \
    X(ACK_NO_SOURCE)                                                                               \
    X(ACK_NO_SYMBOL_CODE)                                                                          \
    X(STRING_DATA)                                                                                 \
    X(THREAD_NAME)                                                                                 \
    X(PLOT_NAME)                                                                                   \
    X(FRAME_NAME)                                                                                  \
    X(FIBER_NAME)                                                                                  \
    X(EXTERNAL_NAME)                                                                               \
    X(EXTERNAL_THREAD_NAME)                                                                        \
    X(SYMBOL_CODE)                                                                                 \
    X(SOURCE_CODE)

enum wire_kind {
#define X(NAME) WIRE_##NAME,
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
