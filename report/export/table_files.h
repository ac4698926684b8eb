#pragma once

/*
 * Exports the tables of a trace (analysis/tables/tables.h) to row files, one per table.
 *
 *     TSV      a line of column names, then a line for each row, tab-separated: PostgreSQL's COPY
 * in text form. \N is no value; \b \f \n \r \t \v \\ and \xNN replace bytes that would break it,
 * and other control characters NDJSON   one JSON object per row, with a member for each column
 *     Parquet  version 1 pages, zstd, plain or dictionary encoding; unsigned numbers and UTF-8
 *              strings are marked as such
 *
 * Texts are well-formed UTF-8, with U+FFFD for invalid bytes. Addresses are 0x… in TSV and NDJSON.
 */

#include <stdio.h>

#include "analysis/tables/tables.h"
#include "base/err.h"

enum table_file_format { TABLE_FILE_TSV, TABLE_FILE_NDJSON, TABLE_FILE_PARQUET };

struct table_files;

/*
 * Writes a file for each table that has an `out`, which stays the caller's. `creator` is named in
 * Parquet files, "NAME version N"; the string must outlive the files.
 */
struct table_files *table_files_open(enum table_file_format format, FILE *const out[TABLE_COUNT],
                                     const char *creator, struct err *e);
void table_files_free(struct table_files *f);

struct table_sink table_files_sink(struct table_files *f);

/* Writes the rest of each file. */
int table_files_finish(struct table_files *f, struct err *e);
