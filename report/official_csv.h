#pragma once

/*
 * The CSV of the official csvexport, byte for byte: nothing is quoted, and the columns depend on
 * the release. Texts of the trace are escaped only on a terminal.
 *
 * Source: csvexport/src/csvexport.cpp @ v0.9.1 … v0.14.0.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "analysis/csvexport/export.h"
#include "base/buf.h"
#include "base/err.h"

/* The features of a release. */
struct csv_release {
    bool messages;    /* -m, and threads of zones */
    bool gpu;         /* -g and -p, and a value column */
    bool zone_texts;  /* texts of zones in the value column */
    bool percentiles; /* --truncated_mean */
};

/*
 * Parses "v0.12.2", "0.12.2" or "0.12" as the release of that tag. A number between two releases is
 * a development version. Fails with ERR_USAGE on other texts.
 */
int csv_release_parse(const char *tag, struct csv_release *r, struct err *e);

/* The newest release. */
struct csv_release csv_release_newest(void);

struct official_csv {
    FILE *out;
    struct csv_release release;
    enum export_kind kind;
    bool self;
    bool percentiles;
    bool terminal; /* `out` is a terminal */
    struct view separator;
    struct buf buf; /* not written yet */
    /*
     * State of the previous zone: its source location, the columns derived from it, and its text.
     */
    bool any;
    uint32_t rank;
    struct buf prefix;
    struct buf value;
};

/*
 * `separator` must outlive the writer. Returns the callbacks for export_open, which refer to `w`;
 * it must not move. Rows reach `out` in pieces; official_csv_finish writes the last one.
 */
struct export_rows official_csv_rows(struct official_csv *w);
int official_csv_finish(struct official_csv *w, struct err *e);
void official_csv_release(struct official_csv *w);
