#ifndef TIDEMARK_SERVER_SINKS_PUSH_H
#define TIDEMARK_SERVER_SINKS_PUSH_H

/* tidemark push: where the rows of traces go. */

#include "analysis/tables/fleet.h"
#include "base/err.h"

enum push_kind { PUSH_NOWHERE, PUSH_CLICKHOUSE, PUSH_FILES };

struct push_place {
    enum push_kind kind;
    const char *place; /* the URL or folder; in the option's value */
};

#define PUSH_PLACES "clickhouse=URL or files=FOLDER"

/* The value of --sink. False when it is neither of PUSH_PLACES. */
bool push_place_parse(struct push_place *p, const char *value);

/* "NAME=VALUE", for --label. */
bool push_is_label(const char *value);

/* A place for rows. One trace after the other; all calls may fail with -1 and `e`. */
struct push_sink {
    void *ctx;
    /* Whether a trace is there, whole. */
    int (*has)(void *ctx, const char *trace, bool *there, struct err *e);
    int (*row)(void *ctx, const struct fleet_trace *trace, unsigned table, const struct cell *cells,
               struct err *e);
    /* All rows of the trace have come; or it is of no use, and nothing of it need stay. */
    int (*end)(void *ctx, struct err *e);
    void (*drop)(void *ctx);
    /* Hands over what waits. */
    int (*finish)(void *ctx, struct err *e);
    void (*close)(void *ctx);
};

/*
 * "http://HOST:8123" or https, "/DATABASE" behind it (tidemark); $CLICKHOUSE_USER and
 * $CLICKHOUSE_PASSWORD. With `create` the tables of `wanted` are made where there are none. Rows
 * go in large pieces; those of `traces` after all others of theirs.
 */
int push_clickhouse_open(struct push_sink *s, const char *url, bool create,
                         const bool wanted[FLEET_TABLE_COUNT], struct err *e);

/* Prints the statements that make the tables. */
int push_clickhouse_definitions(const bool wanted[FLEET_TABLE_COUNT], struct err *e);

/*
 * A folder of Parquet files, FOLDER/TABLE/day=YYYY-MM-DD/TRACE.parquet: the layout that engines
 * take for tables parted by day. A trace's files appear when all of them are whole, the one in
 * `traces` last. A table without rows has no file.
 */
int push_files_open(struct push_sink *s, const char *folder, struct err *e);

#endif
