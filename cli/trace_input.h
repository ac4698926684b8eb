#ifndef TIDEMARK_CLI_TRACE_INPUT_H
#define TIDEMARK_CLI_TRACE_INPUT_H

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
#include "trace/filter/rewrite.h"

struct trace_input {
    const char *path; /* - is standard input */
    unsigned passes;  /* how often it will be read */
    int fd;
    off_t begin;   /* where in the file the trace begins */
    uint64_t size; /* 0 when not known */
    unsigned pass;
    bool terminal; /* stderr is one */
    bool shown;    /* a progress line is on the terminal */
    uint64_t next_show;
    struct interrupt interrupt;
};

int trace_input_open(struct trace_input *in, const char *path, unsigned passes, struct err *e);

/* Lets signals through: one that came meanwhile ends the process here. */
void trace_input_close(struct trace_input *in);

/* `in` must stay where it is. */
struct rewrite_source trace_input_source(struct trace_input *in);

/* Takes the progress line away. */
void trace_input_clear(struct trace_input *in);

#endif
