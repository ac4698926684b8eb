#ifndef TIDEMARK_REPORT_EXPORT_PARQUET_COLUMN_H
#define TIDEMARK_REPORT_EXPORT_PARQUET_COLUMN_H

/*
 * One column of a row group of a Parquet file: encodes values to pages. Texts and unsigned numbers
 * start with a dictionary. If values hardly repeat, the column drops it for the rest of the group.
 */

#include <stdbool.h>
#include <stdint.h>

#include <zstd.h>

#include "analysis/tables/tables.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/map.h"
#include "base/vec.h"

#define PARQUET_GROUP_ROWS (1u << 17)
#define PARQUET_PAGE_ROWS (1u << 15)
#define PARQUET_PAGE_BYTES (1u << 20) /* a page of texts ends early */

/* Constants of parquet.thrift. */
enum parquet_type { PARQUET_BOOLEAN = 0, PARQUET_INT64 = 2, PARQUET_DOUBLE = 5, PARQUET_BYTES = 6 };
enum parquet_encoding { PARQUET_PLAIN = 0, PARQUET_RLE = 3, PARQUET_RLE_DICTIONARY = 8 };
enum { PARQUET_ZSTD = 6 };

/* A dictionary entry, as a range of `dictionary`. */
struct parquet_entry {
    uint32_t offset, len;
};

#define PARQUET_RECENT 8192u

struct parquet_column {
    enum cell_type type;
    bool nullable;
    bool tries;  /* may use a dictionary */
    bool coding; /* the current page does */
    /* The current page: */
    VEC(uint32_t) levels;  /* 1: value present; empty unless nullable */
    VEC(uint32_t) indices; /* of the dictionary */
    struct buf values;     /* PLAIN values, without a dictionary */
    uint32_t rows;
    unsigned bits; /* BOOL: bits in use of the last byte of `values` */
    /* The current row group: */
    struct buf dictionary; /* PLAIN */
    VEC(struct parquet_entry) entries;
    struct map numbers;   /* value, or hash of a text → entry */
    VEC(uint32_t) recent; /* entries of the newest values: PARQUET_RECENT, or none yet */
    struct buf pages;     /* headers and compressed pages */
    uint64_t raw_bytes;   /* of pages before compression, and headers */
    uint64_t count;       /* values in finished pages, including missing ones */
    uint64_t missing;
    bool plain_pages, coded_pages; /* such pages exist */
    bool any;                      /* the group has a value */
    uint64_t low, high;            /* of whole numbers */
    struct buf raw;                /* a page before compression */
    struct buf text;
};

void parquet_column_init(struct parquet_column *c, const struct table_column *column);
void parquet_column_release(struct parquet_column *c);

int parquet_column_add(struct parquet_column *c, const struct cell *cell, ZSTD_CCtx *zstd,
                       struct err *e);

/*
 * Ends the current page and makes the dictionary page, header included, if there is a dictionary.
 */
int parquet_column_end(struct parquet_column *c, ZSTD_CCtx *zstd, struct buf *dictionary_page,
                       struct err *e);

/* Resets the column for the next row group. */
void parquet_column_clear(struct parquet_column *c);

/* The physical type of the column's values. */
enum parquet_type parquet_type_of(enum cell_type type);

/* Whether bounds are kept; `low` and `high` are valid if `any`. */
static inline bool parquet_has_bounds(enum cell_type type)
{
    return type == CELL_INTEGER || type == CELL_COUNT || type == CELL_ADDRESS;
}

#endif
