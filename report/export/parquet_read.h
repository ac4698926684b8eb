#pragma once

/*
 * Reads Parquet files that parquet.h wrote, row by row. The bytes are untrusted: what parquet.h
 * does not write (other codecs and encodings, nested columns, pages of more rows or bytes) is an
 * error. Memory: the compressed columns of one row group, and of each column a page and a
 * dictionary, each at most PARQUET_READ_PAGE_MOST bytes.
 */

#include "analysis/tables/tables.h"
#include "base/err.h"

#define PARQUET_READ_PAGE_MOST ((uint32_t)64 << 20)

struct parquet_reader;

enum parquet_opened { PARQUET_FAILED = -1, PARQUET_OPEN, PARQUET_OTHER_COLUMNS };

/*
 * Reads the footer of the file open at `fd`, which the caller closes after the reader. Only the
 * first `width` columns of the table are read later. PARQUET_OTHER_COLUMNS, without a reader and an
 * error: its columns are not those of `table`, as in files of another version of tidemark.
 */
enum parquet_opened parquet_read_open(struct parquet_reader **r, int fd, const struct table *table,
                                      unsigned width, struct err *e);
void parquet_read_free(struct parquet_reader *r);

/* 1: a row, whose texts are valid until the next call; 0: there is none left; -1: see `e`. */
int parquet_read_row(struct parquet_reader *r, struct cell *cells, struct err *e);
