#pragma once

/*
 * Reads a .tracy file of any version from 0.9.0 on as a stream of records (trace/file/record.h),
 * once from front to back; pipes work, too. Memory does not depend on the trace's size, except for
 * the longest single record. Every index (string, source location, thread, call stack, frame image,
 * zone extra, lock thread) is checked, so a sink may use it directly. Keys (string keys, client
 * pointers, message keys) may be unknown or duplicate and must be looked up. The next patch and
 * minor version after the newest known one are read with its layout, and rejected (ERR_INPUT)
 * unless it fits to the last byte.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "trace/file/container.h"
#include "trace/file/file_version.h"
#include "trace/file/record.h"

/* The parts of a file whose bytes are counted, in file order. */
#define TRACE_PARTS(PART)                                                                          \
    PART(HEADER, "header")                                                                         \
    PART(TOPOLOGY, "processor topology")                                                           \
    PART(CRASH, "crash")                                                                           \
    PART(FRAMES, "frames")                                                                         \
    PART(SECTIONS, "sections")                                                                     \
    PART(STRINGS, "strings")                                                                       \
    PART(NAMES, "names")                                                                           \
    PART(THREAD_TABLES, "thread tables")                                                           \
    PART(SOURCE_LOCATIONS, "source locations")                                                     \
    PART(LOCKS, "locks")                                                                           \
    PART(MESSAGES, "messages")                                                                     \
    PART(ZONE_EXTRAS, "zone extras")                                                               \
    PART(THREADS, "threads and zones")                                                             \
    PART(GPU, "GPU zones")                                                                         \
    PART(PLOTS, "plots")                                                                           \
    PART(MEMORY, "memory")                                                                         \
    PART(CALLSTACKS, "call stacks")                                                                \
    PART(CALLSTACK_FRAMES, "call stack frames")                                                    \
    PART(APP_INFO, "application info")                                                             \
    PART(FRAME_IMAGES, "frame images")                                                             \
    PART(CONTEXT_SWITCHES, "context switches")                                                     \
    PART(CPU_SWITCHES, "processor switches")                                                       \
    PART(PROCESSES, "processes")                                                                   \
    PART(SYMBOLS, "symbols")                                                                       \
    PART(SYMBOL_CODE, "symbol code")                                                               \
    PART(CODE_SYMBOLS, "code addresses")                                                           \
    PART(HW_SAMPLES, "hardware samples")                                                           \
    PART(SOURCE_FILES, "source files")

enum trace_part {
#define PART(NAME, TEXT) PART_##NAME,
    TRACE_PARTS(PART)
#undef PART
        TRACE_PART_COUNT
};

/* "memory", "call stacks", … */
const char *trace_part_name(enum trace_part part);

#define TRACE_WARNINGS_MAX 4
#define TRACE_WARNING_SIZE 160

/* Facts about a file beside its records. Filled during reading, the version first. */
struct trace_info {
    uint32_t version;
    const struct file_layout *layout;
    struct container_info container;
    uint64_t inner_bytes; /* of the uncompressed stream, without trailing bytes */
    uint64_t part_bytes[TRACE_PART_COUNT];
    /*
     * The same in the file. A block of several parts is divided by their uncompressed bytes. 0 for
     * an inner stream.
     */
    uint64_t part_file_bytes[TRACE_PART_COUNT];
    unsigned warning_count;
    char warnings[TRACE_WARNINGS_MAX][TRACE_WARNING_SIZE]; /* anomalies that are no errors */
    /*
     * "", or a warning, also among `warnings`. It says which bytes of the file, or of its last
     * block, follow the trace without being a valid appendix of it (trace/file/appendix.h), or that
     * the file's version is newer than known and was read as the newest known one.
     */
    char behind[TRACE_WARNING_SIZE];
};

struct trace_read_options {
    const bool *wanted; /* REC_TYPE_COUNT flags: the types to put (all are checked); NULL: all */
    /*
     * A root record at which putting and reading stop. Of the rest only block lengths are read, and
     * info->inner_bytes stays 0. 0: read everything.
     */
    enum record_type until;
    /*
     * Decompress in a separate thread (trace/file/read_ahead.h), which is faster if a processor is
     * free. Ignored with `until` and for anything but regular files.
     */
    bool ahead;
    uint64_t record_max; /* most bytes of a record; 0: TRACE_RECORD_MAX */
    struct container_limits limits;
    /* NULL, or called after every block; -1 with `e` filled aborts the reading. */
    int (*progress)(void *ctx, uint64_t file_bytes, struct err *e);
    void *progress_ctx;
};

/*
 * Far more than texts, sources, code and images of real programs. Keep STRING_TEXT_MAX consistent
 * with it.
 */
#define TRACE_RECORD_MAX (UINT64_C(64) << 20)

/*
 * Reads the trace at `fd`, from its current offset to the end, into `sink`. `name` prefixes error
 * texts. `options` may be NULL. Returns 0, or -1 with `e`: an error of the file (ERR_INPUT) names
 * record and offset; an error of the sink is returned unchanged.
 */
int trace_read(int fd, const char *name, const struct record_sink *sink,
               const struct trace_read_options *options, struct trace_info *info, struct err *e);

/* The same from an uncompressed inner stream (tests, fuzzers). */
int trace_read_inner(struct byte_source source, const struct record_sink *sink,
                     const struct trace_read_options *options, struct trace_info *info,
                     struct err *e);
