#pragma once

/* tidemark export: the formats for the allocations of each call stack. */

#include <stdbool.h>
#include <stdio.h>

#include "base/err.h"
#include "cli/export_input.h"
#include "report/export/stack_formats.h"

/* A format: writes the profile to `out`. */
typedef int stack_writer(const struct profile *p, const struct stack_format_options *options,
                         FILE *out, struct err *e);

struct export_stacks {
    struct export_input *input;
    stack_writer *write;
    bool all_frames;
    struct stack_format_options options;
};

int export_stacks(const struct export_stacks *x, FILE *out, struct err *e);
