#pragma once

/*
 * Writes Parquet files row by row. A row group has 2^17 rows, a page at most 2^15. Pages are
 * compressed when full and wait for the end of their group, so memory use is bounded except for the
 * footer: about 100 bytes for each column of a group.
 *
 * Source: README.md, Encodings.md, LogicalTypes.md and src/main/thrift/parquet.thrift of
 * github.com/apache/parquet-format @ 2.10.0. For report/ only.
 */

#include "analysis/tables/tables.h"
#include "base/err.h"
#include "report/write/emit.h"

struct parquet;

/* `to`, the table and the texts must outlive the writer. */
struct parquet *parquet_open(struct emit *to, const struct table *table, const char *creator,
                             struct err *e);
void parquet_free(struct parquet *p);

int parquet_row(struct parquet *p, const struct cell *cells, struct err *e);

/* Writes the last row group and the footer. */
int parquet_finish(struct parquet *p, struct err *e);
