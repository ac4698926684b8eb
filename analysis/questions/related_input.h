#pragma once

/*
 * Plots and messages of a trace, stored while it is loaded, since they come before the memory
 * events with which they are compared. In file-backed columns.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/spool.h"
#include "base/vec.h"
#include "trace/file/record.h"
#include "trace/store/store.h"

struct input_point {
    int64_t time; /* ns */
    double value;
};

struct input_message {
    int64_t time;  /* ns */
    uint64_t text; /* string number; 0: unknown */
};

struct input_plot {
    uint64_t name;  /* client pointer */
    uint64_t first; /* index of its first point in `points` */
    uint64_t n;
};

struct related_input {
    struct trace *trace;
    struct spool spool;
    struct column points;   /* struct input_point */
    struct column messages; /* struct input_message, in the order of the file */
    VEC(struct input_plot) plots;
};

#define RELATED_INPUT_BUDGET ((size_t)16 << 20)

/*
 * Bytes of columns beyond `budget` go to a temporary file in `folder` (NULL: $TMPDIR, else
 * /var/tmp). `i` must not be moved afterwards, and must be released before the trace.
 */
int related_input_init(struct related_input *i, struct trace *t, const char *folder, size_t budget,
                       struct err *e);
void related_input_release(struct related_input *i);

/* Its approximate memory with that budget, in bytes. */
uint64_t related_input_memory(const struct related_input *i, size_t budget);

/* The record types needed, and the function that takes them: see trace_load_options. */
void related_input_wanted(bool wanted[REC_TYPE_COUNT]);
int related_input_put(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e);
