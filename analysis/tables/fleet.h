#pragma once

/*
 * The tables of many traces together, for engines that hold whole fleets: those of tables.h with
 * two columns before the others, and three more. man/tidemark-push.1 describes them.
 *
 *     trace   the trace of a row: fleet_trace.id
 *     row     number of the row within table and trace, from 1; with `trace` it identifies a row,
 *             and the same trace gives the same rows again
 *
 * Engines partition rows by day (UTC), that of the capture: fleet_trace.day, which is no column
 * here.
 */

#include "analysis/tables/tables.h"

#define FLEET_SCHEMA "tidemark.fleet/1"

#define FLEET_KEY(COLUMN)                                                                          \
    COLUMN(FLEET_TRACE, "trace", TEXT, false)                                                      \
    COLUMN(FLEET_ROW, "row", COUNT, false)

/* A row for each trace, written last: a trace without it is incomplete. */
#define FLEET_TRACES(COLUMN)                                                                       \
    COLUMN(FLEET_TRACES_SCHEMA, "schema", TEXT, false)                                             \
    COLUMN(FLEET_TRACES_FILE, "file", TEXT, false)                                                 \
    COLUMN(FLEET_TRACES_FILE_BYTES, "file_bytes", COUNT, false)                                    \
    COLUMN(FLEET_TRACES_FILE_VERSION, "file_version", TEXT, false)                                 \
    COLUMN(FLEET_TRACES_PROGRAM, "program", TEXT, false)                                           \
    COLUMN(FLEET_TRACES_HOST, "host", TEXT, true)                                                  \
    COLUMN(FLEET_TRACES_PID, "pid", COUNT, true)                                                   \
    COLUMN(FLEET_TRACES_CAPTURED, "captured_at", INTEGER, false)                                   \
    COLUMN(FLEET_TRACES_DURATION, "duration_ns", INTEGER, false)                                   \
    COLUMN(FLEET_TRACES_COMPLETE, "complete", BOOL, false)

#define FLEET_LABELS(COLUMN)                                                                       \
    COLUMN(FLEET_LABELS_NAME, "name", TEXT, false)                                                 \
    COLUMN(FLEET_LABELS_VALUE, "value", TEXT, false)

/* Names instead of numbers, so that equal sites of different traces are equal. */
#define FLEET_SITE_TOTALS(COLUMN)                                                                  \
    COLUMN(FLEET_SITE_POOL, "pool", TEXT, false)                                                   \
    COLUMN(FLEET_SITE_NAME, "name", TEXT, false)                                                   \
    COLUMN(FLEET_SITE_FUNCTION, "function", TEXT, true)                                            \
    COLUMN(FLEET_SITE_FILE, "file", TEXT, true)                                                    \
    COLUMN(FLEET_SITE_LINE, "line", COUNT, true)                                                   \
    COLUMN(FLEET_SITE_IMAGE, "image", TEXT, true)                                                  \
    COLUMN(FLEET_SITE_ALLOCATIONS, "allocations", COUNT, false)                                    \
    COLUMN(FLEET_SITE_TOTAL_BYTES, "total_bytes", COUNT, false)                                    \
    COLUMN(FLEET_SITE_LIVE_ALLOCATIONS, "live_allocations", COUNT, false)                          \
    COLUMN(FLEET_SITE_LIVE_BYTES, "live_bytes", COUNT, false)                                      \
    COLUMN(FLEET_SITE_AT_PEAK_ALLOCATIONS, "at_peak_allocations", COUNT, false)                    \
    COLUMN(FLEET_SITE_AT_PEAK_BYTES, "at_peak_bytes", COUNT, false)                                \
    COLUMN(FLEET_SITE_TEMPORARY, "temporary_allocations", COUNT, false)

/* FLEET_TABLE(enumerator, columns, "name"); those of tables.h follow, from FLEET_TABLES_OF_ALL. */
#define FLEET_OWN_TABLES(FLEET_TABLE)                                                              \
    FLEET_TABLE(FLEET_TABLE_TRACES, FLEET_TRACES, "traces")                                        \
    FLEET_TABLE(FLEET_TABLE_LABELS, FLEET_LABELS, "labels")                                        \
    FLEET_TABLE(FLEET_TABLE_SITE_TOTALS, FLEET_SITE_TOTALS, "site_totals")

#define COLUMN(ENUMERATOR, NAME, TYPE, NULLABLE) ENUMERATOR,
enum { FLEET_KEY(COLUMN) FLEET_KEY_WIDTH };
#define FLEET_TABLE(ENUMERATOR, COLUMNS, NAME)                                                     \
    enum { COLUMNS##_BEFORE = FLEET_KEY_WIDTH - 1, COLUMNS(COLUMN) COLUMNS##_WIDTH };
FLEET_OWN_TABLES(FLEET_TABLE)
#undef FLEET_TABLE
#undef COLUMN

enum fleet_table_id {
#define FLEET_TABLE(ENUMERATOR, COLUMNS, NAME) ENUMERATOR,
    FLEET_OWN_TABLES(FLEET_TABLE)
#undef FLEET_TABLE
        FLEET_TABLES_OF_ALL,
    FLEET_TABLE_COUNT = FLEET_TABLES_OF_ALL + TABLE_COUNT,
};

const struct table *fleet_table(unsigned id);

/* False if there is no such table. */
bool fleet_table_find(const char *name, unsigned *id);

/* Whether the table is about memory: these are sent by default. */
bool fleet_table_is_usual(unsigned id);

struct fleet_label {
    const char *name, *value;
};

/* The identity of a trace in a fleet. Texts stay the caller's. */
struct fleet_trace {
    const char *id; /* 32 hexadecimal digits, a hash of its bytes */
    const char *file;
    uint64_t file_bytes;
    const struct fleet_label *labels;
    size_t label_count;
    char day[11]; /* set before the first row: "2026-08-04"; "1970-01-01": unknown */
};

/* Takes rows, each beginning with its key. Views are valid during the call. */
struct fleet_sink {
    void *ctx;
    int (*row)(void *ctx, const struct fleet_trace *trace, unsigned table, const struct cell *cells,
               struct err *e);
    bool wanted[FLEET_TABLE_COUNT]; /* `traces` is always made */
    uint64_t points;                /* of pool_usage, see usage.h */
    const struct selection_options *only;
};

/*
 * Reads the trace and makes its rows. Rows of different tables come in any order, but `traces` is
 * last. Memory as tables_export, and a row of figures for each call stack of each pool.
 */
int fleet_export(const struct tables_source *source, struct fleet_trace *trace,
                 const struct fleet_sink *sink, struct err *e);
