#ifndef TIDEMARK_ANALYSIS_QUESTIONS_OVERVIEW_H
#define TIDEMARK_ANALYSIS_QUESTIONS_OVERVIEW_H

/* What is in a trace file: where it comes from, how it is packed, and how much of what it holds. */

#include <stdbool.h>
#include <stdint.h>

#include "analysis/figures/summary.h"
#include "trace/file/reader.h"
#include "trace/load/load.h"

/* One thing that a trace holds, with its number. */
struct overview_count {
    const char *name; /* "zones"; a JSON key with _ for each blank */
    uint64_t n;
};

#define OVERVIEW_COUNTS_MAX 32

/* One key of our own facts ("tidemark.KEY=VALUE"). */
struct overview_fact {
    struct view key;
    struct view value; /* of the first fact of that key */
    uint64_t n;        /* facts of that key */
};

enum overview_stored { OVERVIEW_STORED_UNKNOWN, OVERVIEW_STORED_NONE, OVERVIEW_STORED_THERE };

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
    /* Figures of the summary behind the trace; overview_build leaves it at "not known". */
    enum overview_stored stored;
    uint64_t stored_bytes; /* that they take of the file, with their names */
};

/*
 * `o` need not be initialised and keeps pointers to the arguments. `summary` is that of the whole
 * trace.
 */
int overview_build(struct overview *o, const struct trace *t, const struct trace_counts *counts,
                   const struct trace_info *info, const struct summary *summary, struct err *e);
void overview_release(struct overview *o);

#endif
