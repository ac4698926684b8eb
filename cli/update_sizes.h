#pragma once

/*
 * What the sizes of a trace before and after `tidemark update` say: whether they show that memory
 * events were stripped, and why a trace has grown.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "trace/file/reader.h"
#include "trace/file/writer.h"

struct update_sizes {
    const char *input, *output; /* names */
    const struct trace_info *in;
    const struct trace_write_stats *out;
    bool no_memory;    /* memory data was requested to be stripped */
    uint64_t stripped; /* memory allocations */
};

/*
 * With `no_memory`: one line with the share of memory events in the input's file, and whether the
 * sizes show that they are gone. Without `lines` it goes to standard error, and only when they do
 * not.
 */
void update_sizes_memory(const struct update_sizes *s, FILE *lines);

/* On standard error, when the output is more than a hundredth larger than the input: why it is. */
void update_sizes_growth(const struct update_sizes *s);
