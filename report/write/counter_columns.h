#pragma once

/*
 * The figures of a counter that documents show, described once: for JSON, CSV and text of reports,
 * and JSON of differences of two traces.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/figures/summary.h"
#include "base/buf.h"

struct counter_column {
    const char *key;   /* of JSON and CSV */
    const char *title; /* of a column of text; NULL: in no table of text */
    size_t offset;     /* of its uint64_t in struct counter */
    bool is_bytes;
    int sort; /* the table of text shows it only if sorted by this key; -1: always */
};

/* Numbers of columns. */
enum { COUNTER_COUNT = 0, COUNTER_SIZE = 1, COUNTER_LIVE = 3, COUNTER_PEAK = 4 };

#define COUNTER_COLUMNS 7u

/* In the order of JSON, CSV and text. */
extern const struct counter_column counter_columns[COUNTER_COLUMNS];

uint64_t counter_value(const struct counter_column *column, const struct counter *c);

/* Adds a member for each column. Takes `object` over; NULL when memory is short, or it is NULL. */
json_t *counter_json(json_t *object, const struct counter *c);

/* Append ",KEY" or ",VALUE" for each column. */
void counter_csv_titles(struct buf *out);
void counter_csv(struct buf *out, const struct counter *c);
