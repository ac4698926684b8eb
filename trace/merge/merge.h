#pragma once

/*
 * Merges several traces into one and keeps all their data. Things that several inputs have are
 * distinguished by name: threads become "NAME (PROGRAM)", and so do pools, plots, locks, frame
 * sets, section categories and GPU contexts whose names occur in more than one input. Programs of
 * equal name are distinguished by process id.
 *
 * The inputs are ordered by their start. The first one provides the header, the default pool, and
 * the numbers of threads and pointers. In later inputs, numbers that are already taken change.
 *
 * Every input is read twice: first for its tables (trace/merge/merge_scan.c), then all inputs at
 * once, list by list (trace/merge/merge_step.h). Memory grows with names, threads and code
 * locations, not with events.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "trace/file/file_version.h"
#include "trace/file/reader.h"
#include "trace/file/writer.h"

/* Address tags have 12 bits; far fewer inputs are useful. */
#define MERGE_INPUTS_MAX 1000u

struct merge_input_options {
    const char *name; /* the file's name, for messages and facts */
    bool has_offset;
    int64_t offset; /* ns from the start of the first input to that of this one */
};

struct merge_options {
    const struct merge_input_options *inputs;
    size_t n;
    bool align_begin;                 /* inputs without an offset all start together */
    const struct file_layout *target; /* NULL: the newest layout of the inputs */
    const char *spill_dir;            /* folder of temporary files; NULL: $TMPDIR, else /var/tmp */
    size_t spill_records;             /* records sorted in memory; 0: a generous default */
};

/*
 * Reads the input `input` (its index in the options) from the start. Calls for different inputs
 * come from different threads, but never run at the same time: while one waits in its sink, another
 * runs.
 */
struct merge_source {
    void *ctx;
    int (*read)(void *ctx, size_t input, unsigned pass, const struct record_sink *sink,
                const bool *wanted, struct trace_info *info, struct err *e);
};

struct merge_outcome {
    const struct file_layout *layout; /* the layout written */
    uint64_t zones, gpu_zones, messages, memory_events, threads, pools;
    uint64_t images_left_out; /* trace/merge/merge_images.c */
    struct buf notes;         /* lines about anomalies */
    struct buf losses;        /* data that the version cannot hold, as in trace/filter/convert.h */
};

/*
 * Writes the merged trace. The caller releases `notes` and `losses`, also after an error. Errors
 * of an input name it.
 */
int merge_traces(const struct merge_source *source, const struct merge_options *options,
                 struct trace_writer *writer, struct merge_outcome *outcome, struct err *e);
