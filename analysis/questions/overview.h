#pragma once

/* The contents of a trace file: its origin, its compression, and its counts. */

#include <stdint.h>

#include "analysis/figures/summary.h"
#include "trace/file/reader.h"
#include "trace/load/load.h"

/* A kind of data in a trace, with its count. */
struct overview_count {
    const char *name; /* "zones"; a JSON key with _ for each blank */
    uint64_t n;
};

#define OVERVIEW_COUNTS_MAX 32

/* One key of Tidemark's facts ("tidemark.KEY=VALUE"). */
struct overview_fact {
    struct view key;
    struct view value; /* of the first fact of that key */
    uint64_t n;        /* facts of that key */
};

enum overview_stored {
    OVERVIEW_STORED_UNKNOWN,
    OVERVIEW_STORED_NONE,
    OVERVIEW_STORED_THERE,
    OVERVIEW_STORED_ONLY, /* a trace of figures only: no events */
};

struct overview {
    const struct trace *trace;
    const struct trace_info *info;
    const struct summary *summary;
    char file_version[FILE_VERSION_TEXT_SIZE];
    const char *container;   /* "one stream" … */
    const char *compression; /* "lz4", "zstd" */
    const char *cpu;         /* architecture of the client */
    struct overview_count counts[OVERVIEW_COUNTS_MAX];
    size_t count_count;
    uint64_t frames;   /* distinct addresses in call stacks */
    uint64_t resolved; /* of them, those with a function name */
    VEC(struct overview_fact) facts;
    /* Figures of the summary stored after the trace; overview_build leaves this "not known". */
    enum overview_stored stored;
    uint64_t stored_bytes; /* their size in the file, with their names */
};

/*
 * `o` need not be initialised and keeps pointers to the arguments. `summary` is that of the whole
 * trace.
 */
int overview_build(struct overview *o, const struct trace *t, const struct trace_counts *counts,
                   const struct trace_info *info, const struct summary *summary, struct err *e);
void overview_release(struct overview *o);
