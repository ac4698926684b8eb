#pragma once

/*
 * Writes a memory summary as text, JSON ("schema": "tidemark.report/1") or CSV. Control characters
 * in text of the trace are escaped for terminals; invalid UTF-8 is replaced in JSON.
 */

#include <stdbool.h>
#include <stdio.h>

#include "analysis/figures/summary.h"
#include "analysis/names/program_frames.h"
#include "base/err.h"
#include "report/write/document.h"

/* "text", "json" or "csv". */
bool report_format_parse(const char *text, enum report_format *format);

/* One trace of a process tree. */
struct report_process {
    uint64_t pid;        /* 0: several short processes share the trace */
    uint64_t count;      /* number of processes */
    struct view program; /* bytes of the trace; empty for shared traces */
    uint64_t peak_bytes; /* of the pool with the highest peak */
    uint64_t live_bytes; /* at the end */
    uint64_t events;     /* allocations and frees */
    struct view trace;   /* path */
};

struct report_options {
    enum report_format format;
    enum sort_key sort;                     /* text shows the column of this key */
    const struct report_process *processes; /* text and JSON: shown as a table before the report */
    size_t process_count;                   /* 0: none */
    struct program_frames *why_site; /* text: explains the sites of the first rows; NULL: not */
    const struct buf *advice; /* text: lines below the report (naming/symbols_advice.h); or NULL */
    bool stack_traces;        /* text: call stacks under each row; needs summary_options.stacks */
};

/* The caller has selected the rows with summary_select. ERR_OUTPUT if `out` cannot be written. */
int report_write(const struct summary *s, const struct report_options *options, FILE *out,
                 struct err *e);
