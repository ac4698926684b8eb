#pragma once

/* tidemark push: destinations of the rows of traces. */

#include "analysis/tables/fleet.h"
#include "base/err.h"

enum push_kind { PUSH_NOWHERE, PUSH_CLICKHOUSE, PUSH_FILES };

struct push_place {
    enum push_kind kind;
    const char *place; /* the URL or folder, within the option's value */
};

#define PUSH_PLACES "clickhouse=URL or files=FOLDER"

/* Parses the value of --sink. False when it is neither of PUSH_PLACES. */
bool push_place_parse(struct push_place *p, const char *value);

/* Whether it is "NAME=VALUE", for --label. */
bool push_is_label(const char *value);

/* PUSH_IN_PART: in a file of many traces, in which it cannot be replaced. */
enum push_there { PUSH_NOT_THERE, PUSH_THERE, PUSH_IN_PART };

/*
 * A destination for rows. Traces are written one after the other; all calls may fail with -1 and
 * `e`.
 */
struct push_sink {
    void *ctx;
    /* Whether the destination has the whole trace. */
    int (*has)(void *ctx, const char *trace, enum push_there *there, struct err *e);
    int (*row)(void *ctx, const struct fleet_trace *trace, unsigned table, const struct cell *cells,
               struct err *e);
    /*
     * end: all rows of the trace were given. drop: the trace is unusable, and its rows may be
     * removed.
     */
    int (*end)(void *ctx, struct err *e);
    void (*drop)(void *ctx);
    /* Flushes buffered rows. */
    int (*finish)(void *ctx, struct err *e);
    void (*close)(void *ctx);
};

/*
 * Opens "http://HOST:8123" or https, optionally with "/DATABASE" (default: tidemark); uses
 * $CLICKHOUSE_USER and $CLICKHOUSE_PASSWORD. With `create` it makes missing tables of `wanted`.
 * Rows are sent in large pieces; those of `traces` after all others of the same traces.
 */
int push_clickhouse_open(struct push_sink *s, const char *url, bool create,
                         const bool wanted[FLEET_TABLE_COUNT], struct err *e);

/* Prints the statements that create the tables. */
int push_clickhouse_definitions(const bool wanted[FLEET_TABLE_COUNT], struct err *e);

/*
 * A folder of Parquet files, FOLDER/TABLE/day=YYYY-MM-DD/TRACE.parquet: the layout of tables
 * partitioned by day. A trace's files get their names when all of them are complete, the one in
 * `traces` last. A table without rows has no file. compact_folder.h merges files; the sink holds a
 * shared lock on the folder until it is closed.
 */
int push_files_open(struct push_sink *s, const char *folder, struct err *e);
