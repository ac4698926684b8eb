#ifndef TIDEMARK_REPORT_REPORT_H
#define TIDEMARK_REPORT_REPORT_H

/*
 * A memory summary as text, JSON ("schema": "tidemark.report/1") or CSV. Text of the
 * trace is made harmless on the way: control characters are escaped for terminals, bytes that are
 * no UTF-8 are replaced in JSON.
 */

#include <stdbool.h>
#include <stdio.h>

#include "analysis/figures/summary.h"
#include "base/err.h"

enum report_format { REPORT_TEXT, REPORT_JSON, REPORT_CSV };

/* "text", "json" or "csv". */
bool report_format_parse(const char *text, enum report_format *format);

/* One trace of a tree of processes. */
struct report_process {
    uint64_t pid;        /* 0: several short ones share the trace */
    uint64_t count;      /* of them */
    struct view program; /* bytes of the trace; empty when they share it */
    uint64_t peak_bytes; /* of the pool with the highest peak */
    uint64_t live_bytes; /* at the end */
    uint64_t events;     /* allocations and frees */
    struct view trace;   /* its path */
};

struct report_options {
    enum report_format format;
    enum sort_key sort;                     /* text shows the column that it is sorted by */
    const struct report_process *processes; /* text and JSON: a table in front of the report */
    size_t process_count;                   /* 0: none */
    bool stack_traces; /* text: the call stacks under each row; needs summary_options.stacks */
};

/* The rows were chosen by summary_select before. ERR_OUTPUT when `out` cannot be written. */
int report_write(const struct summary *s, const struct report_options *options, FILE *out,
                 struct err *e);

#endif
