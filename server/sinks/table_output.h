#pragma once

/* A Parquet file of a table, which appears under its name when it is complete. For server/sinks. */

#include "base/outfile.h"
#include "report/export/parquet.h"

struct table_output {
    struct outfile file;
    struct emit emit; /* .out NULL: not open */
    struct parquet *rows;
};

#define TABLE_OUTPUT_NONE                                                                          \
    {                                                                                              \
        .file.fd = -1                                                                              \
    }

/*
 * Opens the file `path`, which may exist; it is replaced at the end. After a failure call
 * table_output_drop. `o` must be TABLE_OUTPUT_NONE and must not move until it is dropped.
 */
int table_output_open(struct table_output *o, const char *path, const struct table *table,
                      struct err *e);

/* Writes what is left. The file has no name yet: outfile_commit gives it one. */
int table_output_finish(struct table_output *o, struct err *e);

/* Frees all, and removes a file that has no name yet. */
void table_output_drop(struct table_output *o);
