#pragma once

/*
 * A trace as tables of rows: the columns, for databases and column files alike, and the order of
 * cells in a row. man/tidemark-export.1 describes each column; a test compares it with this list.
 *
 * Times are nanoseconds since the trace began, sizes bytes. A reference to another table is the
 * value of that table's first column. Numbers count from 1 unless a column says otherwise.
 */

#include <stdbool.h>
#include <stdint.h>

#include "analysis/figures/selection.h"
#include "base/err.h"
#include "base/view.h"
#include "trace/load/load.h"

enum cell_type {
    CELL_INTEGER, /* signed, 64 bits */
    CELL_COUNT,   /* unsigned, 64 bits */
    CELL_ADDRESS, /* the same, shown in hexadecimal where possible */
    CELL_REAL,
    CELL_BOOL,
    CELL_TEXT, /* any bytes: writers convert them for their format */
};

struct cell {
    bool null;
    union {
        int64_t integer;
        uint64_t count; /* CELL_ADDRESS, too */
        double real;
        bool truth;
        struct view text;
    };
};

/*
 * COLUMN(enumerator, "name", type, may be null). The first `key` columns of a table identify its
 * rows; 0: there is no key.
 */
#define TABLE_FACTS(COLUMN)                                                                        \
    COLUMN(FACT_KEY, "key", TEXT, false)                                                           \
    COLUMN(FACT_VALUE, "value", TEXT, false)

#define TABLE_THREADS(COLUMN)                                                                      \
    COLUMN(THREAD_ID, "id", COUNT, false)                                                          \
    COLUMN(THREAD_NAME, "name", TEXT, true)                                                        \
    COLUMN(THREAD_FIBER, "fiber", BOOL, false)

#define TABLE_SOURCE_LOCATIONS(COLUMN)                                                             \
    COLUMN(LOCATION_ID, "id", INTEGER, false)                                                      \
    COLUMN(LOCATION_NAME, "name", TEXT, true)                                                      \
    COLUMN(LOCATION_FUNCTION, "function", TEXT, true)                                              \
    COLUMN(LOCATION_FILE, "file", TEXT, true)                                                      \
    COLUMN(LOCATION_LINE, "line", COUNT, true)                                                     \
    COLUMN(LOCATION_COLOR, "color", COUNT, true)

#define TABLE_ZONES(COLUMN)                                                                        \
    COLUMN(ZONE_ID, "id", COUNT, false)                                                            \
    COLUMN(ZONE_THREAD, "thread", COUNT, false)                                                    \
    COLUMN(ZONE_PARENT, "parent", COUNT, true)                                                     \
    COLUMN(ZONE_DEPTH, "depth", COUNT, false)                                                      \
    COLUMN(ZONE_LOCATION, "source_location", INTEGER, true)                                        \
    COLUMN(ZONE_START, "start_ns", INTEGER, false)                                                 \
    COLUMN(ZONE_END, "end_ns", INTEGER, true)                                                      \
    COLUMN(ZONE_NAME, "name", TEXT, true)                                                          \
    COLUMN(ZONE_TEXT, "text", TEXT, true)                                                          \
    COLUMN(ZONE_COLOR, "color", COUNT, true)                                                       \
    COLUMN(ZONE_CALLSTACK, "callstack", COUNT, true)

#define TABLE_MESSAGES(COLUMN)                                                                     \
    COLUMN(MESSAGE_ID, "id", COUNT, false)                                                         \
    COLUMN(MESSAGE_TIME, "time_ns", INTEGER, false)                                                \
    COLUMN(MESSAGE_THREAD, "thread", COUNT, true)                                                  \
    COLUMN(MESSAGE_TEXT, "text", TEXT, true)                                                       \
    COLUMN(MESSAGE_SEVERITY, "severity", COUNT, false)                                             \
    COLUMN(MESSAGE_SOURCE, "source", COUNT, false)                                                 \
    COLUMN(MESSAGE_COLOR, "color", COUNT, true)                                                    \
    COLUMN(MESSAGE_CALLSTACK, "callstack", COUNT, true)

#define TABLE_PLOTS(COLUMN)                                                                        \
    COLUMN(PLOT_ID, "id", COUNT, false)                                                            \
    COLUMN(PLOT_NAME, "name", TEXT, true)                                                          \
    COLUMN(PLOT_TYPE, "type", COUNT, false)                                                        \
    COLUMN(PLOT_FORMAT, "format", COUNT, false)                                                    \
    COLUMN(PLOT_POINTS, "points", COUNT, false)

#define TABLE_PLOT_POINTS(COLUMN)                                                                  \
    COLUMN(POINT_PLOT, "plot", COUNT, false)                                                       \
    COLUMN(POINT_TIME, "time_ns", INTEGER, false)                                                  \
    COLUMN(POINT_VALUE, "value", REAL, true)

#define TABLE_FRAME_SETS(COLUMN)                                                                   \
    COLUMN(FRAME_SET_ID, "id", COUNT, false)                                                       \
    COLUMN(FRAME_SET_NAME, "name", TEXT, true)                                                     \
    COLUMN(FRAME_SET_CONTINUOUS, "continuous", BOOL, false)                                        \
    COLUMN(FRAME_SET_MARKS, "marks", COUNT, false)

#define TABLE_FRAME_MARKS(COLUMN)                                                                  \
    COLUMN(MARK_SET, "frame_set", COUNT, false)                                                    \
    COLUMN(MARK_NUMBER, "number", COUNT, false)                                                    \
    COLUMN(MARK_START, "start_ns", INTEGER, false)                                                 \
    COLUMN(MARK_END, "end_ns", INTEGER, true)

#define TABLE_GPU_CONTEXTS(COLUMN)                                                                 \
    COLUMN(GPU_CONTEXT_ID, "id", COUNT, false)                                                     \
    COLUMN(GPU_CONTEXT_NAME, "name", TEXT, true)                                                   \
    COLUMN(GPU_CONTEXT_TYPE, "type", COUNT, false)                                                 \
    COLUMN(GPU_CONTEXT_THREAD, "thread", COUNT, true)                                              \
    COLUMN(GPU_CONTEXT_ZONES, "zones", COUNT, false)

#define TABLE_GPU_ZONES(COLUMN)                                                                    \
    COLUMN(GPU_ZONE_ID, "id", COUNT, false)                                                        \
    COLUMN(GPU_ZONE_CONTEXT, "context", COUNT, false)                                              \
    COLUMN(GPU_ZONE_THREAD, "thread", COUNT, true)                                                 \
    COLUMN(GPU_ZONE_PARENT, "parent", COUNT, true)                                                 \
    COLUMN(GPU_ZONE_DEPTH, "depth", COUNT, false)                                                  \
    COLUMN(GPU_ZONE_LOCATION, "source_location", INTEGER, true)                                    \
    COLUMN(GPU_ZONE_CPU_START, "cpu_start_ns", INTEGER, false)                                     \
    COLUMN(GPU_ZONE_CPU_END, "cpu_end_ns", INTEGER, true)                                          \
    COLUMN(GPU_ZONE_GPU_START, "gpu_start_ns", INTEGER, true)                                      \
    COLUMN(GPU_ZONE_GPU_END, "gpu_end_ns", INTEGER, true)                                          \
    COLUMN(GPU_ZONE_CALLSTACK, "callstack", COUNT, true)

#define TABLE_LOCKS(COLUMN)                                                                        \
    COLUMN(LOCK_ID, "id", COUNT, false)                                                            \
    COLUMN(LOCK_NAME, "name", TEXT, true)                                                          \
    COLUMN(LOCK_LOCATION, "source_location", INTEGER, true)                                        \
    COLUMN(LOCK_SHARED, "shared", BOOL, false)                                                     \
    COLUMN(LOCK_ANNOUNCED, "announced_ns", INTEGER, true)                                          \
    COLUMN(LOCK_TERMINATED, "terminated_ns", INTEGER, true)

#define TABLE_LOCK_EVENTS(COLUMN)                                                                  \
    COLUMN(LOCK_EVENT_LOCK, "lock", COUNT, false)                                                  \
    COLUMN(LOCK_EVENT_TIME, "time_ns", INTEGER, false)                                             \
    COLUMN(LOCK_EVENT_THREAD, "thread", COUNT, true)                                               \
    COLUMN(LOCK_EVENT_EVENT, "event", COUNT, false)                                                \
    COLUMN(LOCK_EVENT_LOCATION, "source_location", INTEGER, true)

#define TABLE_SAMPLES(COLUMN)                                                                      \
    COLUMN(SAMPLE_THREAD, "thread", COUNT, false)                                                  \
    COLUMN(SAMPLE_TIME, "time_ns", INTEGER, false)                                                 \
    COLUMN(SAMPLE_CALLSTACK, "callstack", COUNT, true)

#define TABLE_POOLS(COLUMN)                                                                        \
    COLUMN(POOL_ID, "id", COUNT, false)                                                            \
    COLUMN(POOL_NAME, "name", TEXT, false)                                                         \
    COLUMN(POOL_ALLOCATIONS, "allocations", COUNT, false)                                          \
    COLUMN(POOL_FREES, "frees", COUNT, false)                                                      \
    COLUMN(POOL_TOTAL_BYTES, "total_bytes", COUNT, false)                                          \
    COLUMN(POOL_LIVE_ALLOCATIONS, "live_allocations", COUNT, false)                                \
    COLUMN(POOL_LIVE_BYTES, "live_bytes", COUNT, false)                                            \
    COLUMN(POOL_PEAK_ALLOCATIONS, "peak_allocations", COUNT, false)                                \
    COLUMN(POOL_PEAK_BYTES, "peak_bytes", COUNT, false)                                            \
    COLUMN(POOL_PEAK_TIME, "peak_ns", INTEGER, true)                                               \
    COLUMN(POOL_TEMPORARY, "temporary_allocations", COUNT, false)                                  \
    COLUMN(POOL_LOW, "low_address", ADDRESS, true)                                                 \
    COLUMN(POOL_HIGH, "high_address", ADDRESS, true)

#define TABLE_USAGE(COLUMN)                                                                        \
    COLUMN(USAGE_POOL, "pool", COUNT, false)                                                       \
    COLUMN(USAGE_TIME, "time_ns", INTEGER, false)                                                  \
    COLUMN(USAGE_BYTES, "live_bytes", COUNT, false)                                                \
    COLUMN(USAGE_ALLOCATIONS, "live_allocations", COUNT, false)

#define TABLE_ALLOCATIONS(COLUMN)                                                                  \
    COLUMN(ALLOCATION_ID, "id", COUNT, false)                                                      \
    COLUMN(ALLOCATION_POOL, "pool", COUNT, false)                                                  \
    COLUMN(ALLOCATION_ADDRESS, "address", ADDRESS, false)                                          \
    COLUMN(ALLOCATION_SIZE, "size", COUNT, false)                                                  \
    COLUMN(ALLOCATION_TIME, "alloc_ns", INTEGER, false)                                            \
    COLUMN(ALLOCATION_THREAD, "alloc_thread", COUNT, false)                                        \
    COLUMN(ALLOCATION_CALLSTACK, "alloc_callstack", COUNT, true)                                   \
    COLUMN(ALLOCATION_FREE_TIME, "free_ns", INTEGER, true)                                         \
    COLUMN(ALLOCATION_FREE_THREAD, "free_thread", COUNT, true)                                     \
    COLUMN(ALLOCATION_FREE_CALLSTACK, "free_callstack", COUNT, true)

#define TABLE_TOTALS(COLUMN)                                                                       \
    COLUMN(TOTALS_POOL, "pool", COUNT, false)                                                      \
    COLUMN(TOTALS_CALLSTACK, "callstack", COUNT, true)                                             \
    COLUMN(TOTALS_ALLOCATIONS, "allocations", COUNT, false)                                        \
    COLUMN(TOTALS_TOTAL_BYTES, "total_bytes", COUNT, false)                                        \
    COLUMN(TOTALS_LIVE_ALLOCATIONS, "live_allocations", COUNT, false)                              \
    COLUMN(TOTALS_LIVE_BYTES, "live_bytes", COUNT, false)                                          \
    COLUMN(TOTALS_PEAK_BYTES, "peak_bytes", COUNT, false)                                          \
    COLUMN(TOTALS_AT_PEAK_ALLOCATIONS, "at_peak_allocations", COUNT, false)                        \
    COLUMN(TOTALS_AT_PEAK_BYTES, "at_peak_bytes", COUNT, false)                                    \
    COLUMN(TOTALS_TEMPORARY, "temporary_allocations", COUNT, false)                                \
    COLUMN(TOTALS_TEMPORARY_BYTES, "temporary_bytes", COUNT, false)                                \
    COLUMN(TOTALS_LARGEST, "largest_bytes", COUNT, false)                                          \
    COLUMN(TOTALS_FIRST, "first_ns", INTEGER, false)                                               \
    COLUMN(TOTALS_LAST, "last_ns", INTEGER, false)

#define TABLE_RESIDENT(COLUMN)                                                                     \
    COLUMN(RESIDENT_POOL, "pool", COUNT, false)                                                    \
    COLUMN(RESIDENT_CALLSTACK, "callstack", COUNT, true)                                           \
    COLUMN(RESIDENT_BYTES, "resident_bytes", COUNT, false)                                         \
    COLUMN(RESIDENT_NESTED, "nested_bytes", COUNT, false)

#define TABLE_SITES(COLUMN)                                                                        \
    COLUMN(SITE_ID, "id", COUNT, false)                                                            \
    COLUMN(SITE_NAME, "name", TEXT, false)                                                         \
    COLUMN(SITE_FUNCTION, "function", TEXT, true)                                                  \
    COLUMN(SITE_FILE, "file", TEXT, true)                                                          \
    COLUMN(SITE_LINE, "line", COUNT, true)                                                         \
    COLUMN(SITE_IMAGE, "image", TEXT, true)

#define TABLE_CALLSTACKS(COLUMN)                                                                   \
    COLUMN(CALLSTACK_ID, "id", COUNT, false)                                                       \
    COLUMN(CALLSTACK_SITE, "site", COUNT, false)                                                   \
    COLUMN(CALLSTACK_DEPTH, "depth", COUNT, false)                                                 \
    COLUMN(CALLSTACK_TYPE, "type", TEXT, true)

#define TABLE_CALLSTACK_FRAMES(COLUMN)                                                             \
    COLUMN(STACK_CALLSTACK, "callstack", COUNT, false)                                             \
    COLUMN(STACK_POSITION, "position", COUNT, false)                                               \
    COLUMN(STACK_FRAME, "frame", COUNT, false)

#define TABLE_FRAMES(COLUMN)                                                                       \
    COLUMN(FRAME_ID, "id", COUNT, false)                                                           \
    COLUMN(FRAME_ADDRESS, "address", ADDRESS, true)                                                \
    COLUMN(FRAME_IMAGE, "image", TEXT, true)

#define TABLE_FRAME_FUNCTIONS(COLUMN)                                                              \
    COLUMN(FUNCTION_FRAME, "frame", COUNT, false)                                                  \
    COLUMN(FUNCTION_POSITION, "position", COUNT, false)                                            \
    COLUMN(FUNCTION_NAME, "name", TEXT, false)                                                     \
    COLUMN(FUNCTION_FUNCTION, "function", TEXT, true)                                              \
    COLUMN(FUNCTION_FILE, "file", TEXT, true)                                                      \
    COLUMN(FUNCTION_LINE, "line", COUNT, true)                                                     \
    COLUMN(FUNCTION_INLINED, "inlined", BOOL, false)

/* TABLE(enumerator, list of columns, "name", key) */
#define TABLES(TABLE)                                                                              \
    TABLE(TABLE_OF_FACTS, TABLE_FACTS, "facts", 0)                                                 \
    TABLE(TABLE_OF_THREADS, TABLE_THREADS, "threads", 1)                                           \
    TABLE(TABLE_OF_SOURCE_LOCATIONS, TABLE_SOURCE_LOCATIONS, "source_locations", 1)                \
    TABLE(TABLE_OF_ZONES, TABLE_ZONES, "zones", 1)                                                 \
    TABLE(TABLE_OF_MESSAGES, TABLE_MESSAGES, "messages", 1)                                        \
    TABLE(TABLE_OF_PLOTS, TABLE_PLOTS, "plots", 1)                                                 \
    TABLE(TABLE_OF_PLOT_POINTS, TABLE_PLOT_POINTS, "plot_points", 0)                               \
    TABLE(TABLE_OF_FRAME_SETS, TABLE_FRAME_SETS, "frame_sets", 1)                                  \
    TABLE(TABLE_OF_FRAME_MARKS, TABLE_FRAME_MARKS, "frame_marks", 2)                               \
    TABLE(TABLE_OF_GPU_CONTEXTS, TABLE_GPU_CONTEXTS, "gpu_contexts", 1)                            \
    TABLE(TABLE_OF_GPU_ZONES, TABLE_GPU_ZONES, "gpu_zones", 1)                                     \
    TABLE(TABLE_OF_LOCKS, TABLE_LOCKS, "locks", 1)                                                 \
    TABLE(TABLE_OF_LOCK_EVENTS, TABLE_LOCK_EVENTS, "lock_events", 0)                               \
    TABLE(TABLE_OF_SAMPLES, TABLE_SAMPLES, "samples", 0)                                           \
    TABLE(TABLE_OF_POOLS, TABLE_POOLS, "pools", 1)                                                 \
    TABLE(TABLE_OF_USAGE, TABLE_USAGE, "pool_usage", 0)                                            \
    TABLE(TABLE_OF_ALLOCATIONS, TABLE_ALLOCATIONS, "allocations", 1)                               \
    TABLE(TABLE_OF_TOTALS, TABLE_TOTALS, "callstack_totals", 0)                                    \
    TABLE(TABLE_OF_RESIDENT, TABLE_RESIDENT, "callstack_resident", 0)                              \
    TABLE(TABLE_OF_SITES, TABLE_SITES, "sites", 1)                                                 \
    TABLE(TABLE_OF_CALLSTACKS, TABLE_CALLSTACKS, "callstacks", 1)                                  \
    TABLE(TABLE_OF_CALLSTACK_FRAMES, TABLE_CALLSTACK_FRAMES, "callstack_frames", 2)                \
    TABLE(TABLE_OF_FRAMES, TABLE_FRAMES, "frames", 1)                                              \
    TABLE(TABLE_OF_FRAME_FUNCTIONS, TABLE_FRAME_FUNCTIONS, "frame_functions", 2)

#define COLUMN(ENUMERATOR, NAME, TYPE, NULLABLE) ENUMERATOR,
#define TABLE(ENUMERATOR, COLUMNS, NAME, KEY) enum { COLUMNS(COLUMN) COLUMNS##_WIDTH };
TABLES(TABLE)
#undef TABLE
#undef COLUMN

enum table_id {
#define TABLE(ENUMERATOR, COLUMNS, NAME, KEY) ENUMERATOR,
    TABLES(TABLE)
#undef TABLE
        TABLE_COUNT
};

#define TABLE_WIDTH_MAX 16u

/*
 * In the first row of `facts`; the number increases when a column is removed or changes its
 * meaning.
 */
#define TABLES_SCHEMA "tidemark.tables/1"

struct table_column {
    const char *name;
    enum cell_type type;
    bool nullable;
};

struct table {
    const char *name;
    const struct table_column *columns;
    unsigned width;
    unsigned key;
};

const struct table *table_get(enum table_id id);

/* False if there is no such table. */
bool table_find(const char *name, enum table_id *id);

/*
 * Takes rows. Rows of different tables are interleaved. Those of a table with a key of two columns
 * are in order of the key, others in the order of the trace (zones as they end, the inner before
 * the outer). Views are valid during the call. Returns 0, or -1 with `e` to stop.
 */
struct table_sink {
    void *ctx;
    int (*row)(void *ctx, enum table_id table, const struct cell *cells, struct err *e);
    bool wanted[TABLE_COUNT]; /* rows of other tables are not made */
    uint64_t points;          /* of pool_usage, see usage.h */
    /*
     * Only these allocations in the tables of memory; NULL: all. Events after the time of the
     * selection are ignored: a block freed later is live.
     */
    const struct selection_options *only;
};

#define TABLES_POINTS 10000u /* the default */

/* Loads a trace, as trace_load_with does. */
struct tables_source {
    void *ctx;
    int (*load)(void *ctx, struct trace *t, const struct trace_load_options *options,
                struct err *e);
    size_t resident_budget; /* of the trace, see struct trace_options */
};

/*
 * Reads the trace and makes the rows of the wanted tables. Memory grows with live blocks and the
 * distinct names, call stacks and frames, not with events. `spool_dir` is for temporary files,
 * NULL: $TMPDIR, else /var/tmp.
 */
int tables_export(const struct tables_source *source, const struct table_sink *sink,
                  const char *spool_dir, struct err *e);
