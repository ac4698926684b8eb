#pragma once

/*
 * Traces by id, each with a number, and what a folder of Parquet files has of them. About 50 bytes
 * for each trace. Zero-initialise to get an empty set.
 */

#include "analysis/tables/tables.h"
#include "base/err.h"
#include "base/map.h"
#include "base/vec.h"
#include "base/view.h"

struct trace_entry {
    uint64_t low; /* of the hash of the id, whose high half is the key */
    uint64_t number;
};

struct trace_set {
    struct map entries;
    VEC(struct trace_entry) at;
};

void trace_set_release(struct trace_set *s);

/* The number of a trace; NULL: it is not in the set. Valid until the set changes. */
uint64_t *trace_set_find(const struct trace_set *s, struct view id);

/* The same, added as 0 when absent; NULL with `e` when memory is short. */
uint64_t *trace_set_add(struct trace_set *s, struct view id, struct err *e);

/*
 * Whether a name is that of a file of one trace, ID.parquet; *id is its part. Files of many traces
 * have other names.
 */
bool trace_file_name(const char *name, struct view *id);

typedef int table_row(void *ctx, const struct cell *cells, struct err *e);

/*
 * Calls `each` for each row of the table's Parquet file `path`, of which it reads the first `width`
 * columns, until it gives -1. Returns -1 then or when the file cannot be read; 1 when its columns
 * are not those of the table; else 0.
 */
int table_file_read(const char *path, const struct table *table, unsigned width, table_row *each,
                    void *ctx, struct err *e);

/* Adds the traces of all rows of a file of the table `traces`; returns as table_file_read. */
int trace_set_read(struct trace_set *s, const char *path, struct err *e);
