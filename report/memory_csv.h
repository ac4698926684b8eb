#pragma once

/* Tidemark's CSV of memory events and call stacks, with fields quoted as in csv_field.h. */

#include <stdio.h>

#include "analysis/names/frames.h"
#include "analysis/tables/memory_rows.h"
#include "base/buf.h"
#include "base/err.h"

struct memory_csv {
    FILE *out;
    struct buf buf; /* not written yet */
};

/*
 * memory_csv_begin writes the line of column names; memory_csv_row one event (a memory_row_put,
 * `ctx` is the writer).
 */
int memory_csv_begin(struct memory_csv *w, struct err *e);
int memory_csv_row(void *ctx, const struct memory_row *row, struct err *e);

/* Writes all call stacks of a loaded trace, a row for each function, innermost first. */
int memory_csv_callstacks(struct memory_csv *w, const struct trace *t, struct err *e);

/* Writes the rest. */
int memory_csv_finish(struct memory_csv *w, struct err *e);
void memory_csv_release(struct memory_csv *w);
