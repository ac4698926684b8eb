#pragma once

/*
 * The trace that a command rewrites. It is read as often as the filters need, with a progress line
 * on a terminal; signals are checked between blocks. Input that cannot be read twice is copied
 * first.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "cli/interrupt.h"
#include "report/write/progress.h"
#include "trace/filter/rewrite.h"

struct trace_input {
    const char *path; /* for messages */
    unsigned passes;  /* the number of times it will be read */
    int fd;
    off_t begin;   /* offset of the trace in the file */
    uint64_t size; /* 0 if unknown */
    unsigned pass;
    struct progress progress;
    struct interrupt interrupt;
};

/* `quiet`: without the progress line. */
int trace_input_open(struct trace_input *in, const char *path, unsigned passes, bool quiet,
                     struct err *e);

/* Unblocks signals: one that arrived meanwhile ends the process here. */
void trace_input_close(struct trace_input *in);

/* `in` must not be moved. */
struct rewrite_source trace_input_source(struct trace_input *in);

/* Removes the progress line. */
void trace_input_clear(struct trace_input *in);
