#ifndef TIDEMARK_REPORT_OFFICIAL_CSV_H
#define TIDEMARK_REPORT_OFFICIAL_CSV_H

/*
 * The CSV of the official csvexport, byte by byte: nothing is quoted, and what the columns are
 * depends on the release. Only for a terminal texts of the trace are escaped.
 *
 * Source: csvexport/src/csvexport.cpp @ v0.9.1 … v0.14.0.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "analysis/csvexport/export.h"
#include "base/buf.h"
#include "base/err.h"

/* What a release can do. */
struct csv_release {
    bool messages;    /* -m, and the threads of zones */
    bool gpu;         /* -g and -p, and a column for values */
    bool zone_texts;  /* the texts of zones among the values */
    bool percentiles; /* --truncated_mean */
};

/*
 * "v0.12.2", "0.12.2", "0.12": the release of that tag; a number between two releases is a
 * development version. ERR_USAGE for others.
 */
int csv_release_parse(const char *tag, struct csv_release *r, struct err *e);

/* The newest one. */
struct csv_release csv_release_newest(void);

struct official_csv {
    FILE *out;
    struct csv_release release;
    enum export_kind kind;
    bool self;
    bool percentiles;
    bool terminal; /* `out` is one */
    struct view separator;
    struct buf buf; /* what is not written yet */
    /* of the zone before: its source location, the columns that this fills, and its text */
    bool any;
    uint32_t rank;
    struct buf prefix;
    struct buf value;
};

/*
 * `separator` must outlive the writer. The rows to give to export_open refer to `w`, which must not
 * move. Rows reach `out` in pieces; official_csv_finish writes the last.
 */
struct export_rows official_csv_rows(struct official_csv *w);
int official_csv_finish(struct official_csv *w, struct err *e);
void official_csv_release(struct official_csv *w);

#endif
