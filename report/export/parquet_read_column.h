#pragma once

/* One column of a Parquet file that is read: decodes pages to cells. For parquet_read.c. */

#include <zstd.h>

#include "analysis/tables/tables.h"
#include "base/buf.h"
#include "base/cursor.h"
#include "base/err.h"
#include "base/vec.h"

struct parquet_read_column {
    const struct table_column *column;
    /* The current row group: */
    struct buf chunk;
    uint64_t at;         /* its offset in the file, for errors */
    struct cursor pages; /* those that were not read yet */
    struct buf dictionary;
    VEC(struct view) entries; /* in `dictionary` */
    bool has_dictionary;
    /* The current page: */
    struct buf page;
    VEC(uint32_t) levels;  /* 1: the row has a value */
    VEC(uint32_t) indices; /* of entries */
    struct cursor values;  /* PLAIN */
    bool coded;
    uint32_t rows, row;
    uint32_t value; /* how many values were read */
};

void parquet_read_column_release(struct parquet_read_column *c);

/* Begins a row group, whose bytes of this column are in `chunk`. */
void parquet_read_column_begin(struct parquet_read_column *c);

/* Whether all that the row group has of this column was read. */
bool parquet_read_column_ended(const struct parquet_read_column *c);

int parquet_read_cell(struct parquet_read_column *c, struct cell *cell, ZSTD_DCtx *zstd,
                      struct err *e);
