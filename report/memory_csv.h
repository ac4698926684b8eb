#ifndef TIDEMARK_REPORT_MEMORY_CSV_H
#define TIDEMARK_REPORT_MEMORY_CSV_H

/* Our own CSV of memory events and call stacks, with fields quoted as in csv_field.h. */

#include <stdio.h>

#include "analysis/names/frames.h"
#include "analysis/tables/memory_rows.h"
#include "base/buf.h"
#include "base/err.h"

struct memory_csv {
    FILE *out;
    struct buf buf; /* what is not written yet */
};

/* The line with the names of the columns; one event (a memory_row_put, `ctx` is the writer). */
int memory_csv_begin(struct memory_csv *w, struct err *e);
int memory_csv_row(void *ctx, const struct memory_row *row, struct err *e);

/* All call stacks of a trace that was loaded, a row for each function, the innermost first. */
int memory_csv_callstacks(struct memory_csv *w, const struct trace *t, struct err *e);

/* Writes what is left. */
int memory_csv_finish(struct memory_csv *w, struct err *e);
void memory_csv_release(struct memory_csv *w);

#endif
